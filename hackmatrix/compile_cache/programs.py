"""Finds programs that were compiled before, first by what they are made of, then by their text.

The second way is for programs that have to be traced after all, because this package has changed or
because a part of them is from elsewhere: most of them still have the text that they had before.

A program that several processes run together is found by all of them or compiled by all: compilers
for GPUs share work among processes, and one that compiles alone would wait for the others.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from hackmatrix.compile_cache import fingerprints
from hackmatrix.compile_cache.calls import calls_of, can_be_made_ready
from hackmatrix.compile_cache.devices import Devices, are_among, devices_of
from hackmatrix.compile_cache.files import Files
from hackmatrix.compile_cache.sources import has_changed, short_hash, source_hash

Program = Callable[..., Any]
Compiled = jax.stages.Compiled
Lower = Callable[[], jax.stages.Lowered]
EveryProcess = Callable[[bool], bool]

_LOG = logging.getLogger(__name__)
_FOLDER = "hackmatrix"
_FORMAT = "2"  # of the content of the files
_compiling = threading.Lock()  # as the setting of JAX's cache is one of all threads
_kept_meanwhile = threading.Event()  # programs are, although that setting is off for one of them
_in_use: dict[tuple[Files, str], Compiled] = {}
_prefetched: dict[tuple[Files, str], threading.Thread] = {}


class CachedJit:
    """A function made by jax.jit, whose program is found or compiled at its first call; all later
    calls must have arguments of the same shapes and types. It runs on the given devices, or else
    where its arguments are, or on the default device. `of` is all that the function was made of; a
    function defined at the top of a module needs none.

    Where the devices are those of several processes, `every_process` has to tell whether something
    is so on all of them, and all make the first call.
    """

    def __init__(
        self,
        function: Any,
        of: Any = None,
        devices: Devices | None = None,
        every_process: EveryProcess | None = None,
    ) -> None:
        self._function, self._of, self._devices = function, of or function, devices
        self._every_process = every_process
        self._program: Program | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._program is None:
            self._program = self._found(arguments)
        return self._program(*arguments)

    def shapes(self, *arguments: Any) -> Any:
        """The shapes and types of what it gives. They are found without tracing where the program
        would be; it is not compiled for them.
        """
        if cache := self._cache(arguments):
            with suppress(fingerprints.Unknown):
                if about := cache.about(cache.name_of(self._of, arguments)):
                    return about.gives
        return jax.eval_shape(self._function, *arguments)

    def __getstate__(self) -> dict[str, Any]:
        """A copy finds the program again."""
        return {**vars(self), "_program": None}

    def _cache(self, arguments: Any) -> _Cache | None:
        return _cache_for(self._devices or devices_of(arguments), self._every_process)

    def _found(self, arguments: Any) -> Program:
        cache = self._cache(arguments)
        if cache is None:
            jitted: Program = self._function
            return jitted
        return cache.found(lambda: self._function.lower(*arguments), self._of, arguments)


def compiled(lower: Lower, of: Any, devices: Devices, every_process: EveryProcess) -> Compiled:
    """The program that `lower` gives, found or compiled. `of` is all that it is made of, and tells
    the shapes of its arguments; `every_process` is that of `CachedJit`.
    """
    cache = _cache_for(devices, every_process)
    return cache.found(lower, of) if cache else traced(lower).compile()


def prefetch(of: Any, devices: Devices) -> None:
    """Begins to load the program that is made of this, if it is kept, while other things are done;
    `compiled` waits for it. Nothing is done where several processes would have to agree.
    """
    if cache := _cache_for(devices, None):
        with suppress(fingerprints.Unknown):
            cache.prefetch(cache.name_of(of, ()))


def name_of(lower: Lower, of: Any) -> str:
    """A name that the program has in all processes that make it, and others have not. It is traced
    for that only where what it is made of does not tell.
    """
    try:
        text = f"{fingerprints.of(of)} {fingerprints.settings()}"
    except fingerprints.Unknown:
        text = traced(lower).as_text()
    return short_hash(text.encode())


def traced(lower: Lower) -> jax.stages.Lowered:
    """What `lower` gives. No garbage is collected meanwhile: a sixth of the time would go to
    looking again and again at all that tracing makes, which is in use.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return lower()
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class _About:
    """What is known of a program by what it is made of."""

    words: str  # the name of the file that it is in
    calls: frozenset[str]
    takes: Any  # a tree without leaves
    gives: Any  # a tree of shapes and types

    @property
    def trees(self) -> tuple[Any, Any]:
        return self.takes, jax.tree.structure(self.gives)


@dataclass(frozen=True)
class _Cache:
    files: Files
    devices: Devices
    surroundings: str
    every_process: EveryProcess

    def name(self, *words: str) -> str:
        text = "\n".join((_FORMAT, self.surroundings, *words))
        return hashlib.sha256(text.encode()).hexdigest()

    def name_of(self, parts: Any, arguments: Any) -> str:
        """The name of the file that is about the program of these parts; or Unknown."""
        # Processes that disagreed here would wait for each other; nor does anyone edit a pod.
        if self.every_process is bool and has_changed():
            raise fingerprints.Unknown("this package, whose files are others than those it runs")
        return self.name(source_hash(), fingerprints.of(parts), fingerprints.arguments(arguments))

    def about(self, name: str) -> _About | None:
        if content := self.files.read(name):
            try:
                return _About(*pickle.loads(content))
            except Exception as error:  # there may be anything in a file, and there is another way
                _LOG.debug("%s cannot be used: %r", name, error)
        return None

    def found(self, lower: Lower, of: Any, arguments: Any = ()) -> Compiled:
        """The program that `lower` gives."""
        try:
            name = self.name_of(of, arguments)
        except fingerprints.Unknown as part:
            _LOG.debug("not known without being traced: %s", part)
            return self._found_by_words(traced(lower))[0]
        if thread := _prefetched.pop((self.files, name), None):
            thread.join()
        if (self.files, name) not in _in_use:
            _in_use[self.files, name] = self._found_by_parts(name, lower)
        return _in_use[self.files, name]

    def prefetch(self, name: str) -> None:
        """Begins to load the program that the file of this name is about."""

        def load() -> None:
            if program := self._kept(name):
                _in_use[self.files, name] = program

        if (self.files, name) not in _in_use:
            # No daemon, as Python would end while XLA is at work in it.
            _prefetched[self.files, name] = threading.Thread(target=load, name="programs")
            _prefetched[self.files, name].start()

    def _found_by_parts(self, name: str, lower: Lower) -> Compiled:
        """The program that the file of this name is about."""
        if program := self._if_all_have(self._kept(name)):
            return program
        lowered = traced(lower)
        program, words = self._found_by_words(lowered)
        gives = jax.tree.map(_without_place, lowered.out_info)
        about = words, calls_of(lowered), lowered.in_tree, gives
        self.files.write(name, pickle.dumps(about))
        return program

    def _found_by_words(self, lowered: jax.stages.Lowered) -> tuple[Compiled, str]:
        """The program, and the name of the file that it is in."""
        trees = lowered.in_tree, lowered.out_tree
        # A typed key and its words may be the same in the text.
        types = [str(each.dtype) for each in jax.tree.leaves((lowered.args_info, lowered.out_info))]
        name = self.name(lowered.as_text(), repr((*trees, types)))
        if program := self._if_all_have(self._loaded(name, *trees)):
            return program, name
        # What JAX's cache gives on a CPU cannot be written down again: parts of it are missing.
        with _compiling:
            _kept_meanwhile.set()
            try:
                with without_persistent_cache():
                    program = lowered.compile()
            finally:
                _kept_meanwhile.clear()
        self._save(name, program)
        return program, name

    def _kept(self, name: str) -> Compiled | None:
        if (about := self.about(name)) and can_be_made_ready(about.calls):
            return self._loaded(about.words, *about.trees)
        return None

    def _loaded(self, name: str, in_tree: Any, out_tree: Any) -> Compiled | None:
        try:
            if content := self.files.read(name):
                return serialize_executable.deserialize_and_load(
                    content, in_tree, out_tree, self.devices[0].client, self.devices
                )
        except Exception as error:  # as above
            _LOG.debug("%s cannot be used: %r", name, error)
        return None

    def _if_all_have(self, program: Compiled | None) -> Compiled | None:
        return program if self.every_process(program is not None) else None

    def _save(self, name: str, program: Compiled) -> None:
        try:
            content, *_ = serialize_executable.serialize(program)
        except Exception as error:  # of any backend that cannot do this
            _LOG.debug("%s cannot be kept: %r", name, error)
        else:
            self.files.write(name, content)


def _without_place(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


@contextmanager
def without_persistent_cache() -> Iterator[None]:
    """What is compiled inside is neither found in JAX's own cache nor left there."""
    before = jax.config.values["jax_enable_compilation_cache"]
    # JAX looks at the setting once, and again only after a reset.
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def are_kept() -> bool:
    """Whether JAX keeps anything, and not in a bucket."""
    directory = jax.config.values["jax_compilation_cache_dir"]
    is_on = jax.config.values["jax_enable_compilation_cache"] or _kept_meanwhile.is_set()
    return is_on and bool(directory) and "://" not in directory


def _cache_for(devices: Devices, every_process: EveryProcess | None) -> _Cache | None:
    """None where no programs are kept or compiled, for devices that cannot be had, and for those of
    several processes that were not told how to agree.
    """
    if not are_kept() or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return None
    if are_among(jax.local_devices, devices):
        every_process = bool
    elif every_process is None or not are_among(jax.devices, devices):
        return None
    files = Files(Path(jax.config.values["jax_compilation_cache_dir"], _FOLDER))
    return _Cache(files, devices, fingerprints.surroundings(devices), every_process)
