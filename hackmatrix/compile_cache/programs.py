"""Finds programs that were compiled before, by their fingerprint or else by their lowered text.

The text is for programs that have to be traced after all, because this package has changed or a
part of them is from another one: most of them still have the same text as before.

A program of several processes is either found by all of them or compiled by all: compilers for GPUs
share work among processes, and one that compiles alone would wait for the others.
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
from hackmatrix.compile_cache.calls import calls_of, make_ready
from hackmatrix.compile_cache.devices import Devices, are_among, devices_of
from hackmatrix.compile_cache.files import Files, folder_in
from hackmatrix.compile_cache.sources import has_changed, short_hash, source_hash

Program = Callable[..., Any]
Compiled = jax.stages.Compiled
Lower = Callable[[], jax.stages.Lowered]
EveryProcess = Callable[[bool], bool]

_LOG = logging.getLogger(__name__)
_FORMAT = "2"  # version of the content of the files
# Held while JAX's cache, whose setting all threads share, is off only to compile one program.
_compiling_uncached = threading.Lock()
_in_use: dict[tuple[Files, str], Compiled] = {}
_prefetched: dict[tuple[Files, str], threading.Thread] = {}


class CachedJit:
    """A jitted function whose program is found or compiled at its first call. All later calls must
    have arguments of the same shapes and dtypes. It runs on the given devices, or else where its
    arguments are, or on the default device. `of` is all that the function is made of; a function
    defined at the top of a module, or a partial of one, needs none.

    With the devices of several processes, `every_process` has to return whether a value is true on
    all of them, and all have to make the first call.
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
        if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return self._function(*arguments)
        if self._program is None:
            self._program = self._found(arguments)
        return self._program(*arguments)

    def shapes(self, *arguments: Any) -> Any:
        """Returns the shapes and dtypes of the result, without compiling; and without tracing where
        the program is cached.
        """
        if cache := self._cache(arguments):
            with suppress(fingerprints.Unknown):
                if about := cache.about(cache.name_of(self._of, arguments)):
                    return about.gives
        return jax.eval_shape(self._function, *arguments)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the program: a copy finds it again."""
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
    """Finds or compiles the program that `lower` lowers. `of` is all that it is made of, including
    the shapes of its arguments; `every_process` is as for `CachedJit`.
    """
    cache = _cache_for(devices, every_process)
    return cache.found(lower, of) if cache else traced(lower).compile()


def prefetch(of: Any, devices: Devices) -> None:
    """Starts a thread that loads the program made of this, if it is cached; `compiled` waits for
    it. Does nothing where several processes would have to agree.
    """
    if cache := _cache_for(devices, None):
        with suppress(fingerprints.Unknown):
            cache.prefetch(cache.name_of(of, ()))


def name_of(lower: Lower, of: Any) -> str:
    """Returns a name that is the same in all processes that build this program, and differs from
    those of other programs. Traces it only if the fingerprint is Unknown.
    """
    try:
        text = f"{fingerprints.of(of)} {fingerprints.settings()}"
    except fingerprints.Unknown:
        text = traced(lower).as_text()
    return short_hash(text.encode())


def traced(lower: Lower) -> jax.stages.Lowered:
    """Calls `lower` without collecting garbage: a sixth of the time would go to looking again and
    again at what tracing makes, all of which is in use.
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
    """What the cache has under the fingerprint of a program."""

    program_file: str  # the name of the file with the program itself
    calls: frozenset[str]
    takes: Any  # the tree structure of the arguments
    gives: Any  # the shapes and dtypes of the results

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
        """Returns the name of the `_About` file of a program of these parts; raises Unknown."""
        # Only for one process: several have to decide alike, and nobody edits files on a pod.
        if self.every_process is bool and has_changed():
            raise fingerprints.Unknown("this package: its sources have changed since its import")
        return self.name(source_hash(), fingerprints.of(parts), fingerprints.arguments(arguments))

    def about(self, name: str) -> _About | None:
        if content := self.files.read(name):
            try:
                return _About(*pickle.loads(content))
            except Exception as error:  # a file may contain anything; the program can be traced
                _LOG.debug("%s cannot be used: %r", name, error)
        return None

    def found(self, lower: Lower, of: Any, arguments: Any = ()) -> Compiled:
        """Finds or compiles the program that `lower` lowers."""
        try:
            name = self.name_of(of, arguments)
        except fingerprints.Unknown as part:
            _LOG.debug("no fingerprint, so the program is traced: %s", part)
            return self._found_by_text(traced(lower))[0]
        if thread := _prefetched.pop((self.files, name), None):
            thread.join()
        if (self.files, name) not in _in_use:
            _in_use[self.files, name] = self._found_by_parts(name, lower)
        return _in_use[self.files, name]

    def prefetch(self, name: str) -> None:
        """Starts to load the program that the file of this name describes."""

        def load() -> None:
            if program := self._load_described(name):
                _in_use[self.files, name] = program

        if (self.files, name) not in _in_use:
            # Not a daemon, as Python could exit while XLA is at work in it.
            _prefetched[self.files, name] = threading.Thread(target=load, name="programs")
            _prefetched[self.files, name].start()

    def _found_by_parts(self, name: str, lower: Lower) -> Compiled:
        """Finds the program by its fingerprint, or else by its text, or compiles it."""
        if program := self._if_all_have(self._load_described(name)):
            return program
        lowered = traced(lower)
        program, program_file = self._found_by_text(lowered)
        gives = jax.tree.map(_without_place, lowered.out_info)
        about = program_file, calls_of(lowered), lowered.in_tree, gives
        self.files.write(name, pickle.dumps(about))
        return program

    def _found_by_text(self, lowered: jax.stages.Lowered) -> tuple[Compiled, str]:
        """Finds the program by its text or compiles it; also returns the name of its file."""
        trees = lowered.in_tree, lowered.out_tree
        # The text may be the same for a typed key and for its words.
        types = [str(each.dtype) for each in jax.tree.leaves((lowered.args_info, lowered.out_info))]
        name = self.name(lowered.as_text(), repr((*trees, types)))
        if program := self._if_all_have(self._loaded(name, *trees)):
            return program, name
        # What JAX's cache returns on a CPU cannot be serialised again: parts of it are missing.
        with _compiling_uncached, without_persistent_cache():
            program = lowered.compile()
        self._save(name, program)
        return program, name

    def _load_described(self, name: str) -> Compiled | None:
        if (about := self.about(name)) and make_ready(about.calls):
            return self._loaded(about.program_file, *about.trees)
        return None

    def _loaded(self, name: str, in_tree: Any, out_tree: Any) -> Compiled | None:
        try:
            if content := self.files.read(name):
                return serialize_executable.deserialize_and_load(
                    content, in_tree, out_tree, self.devices[0].client, self.devices
                )
        except Exception as error:  # as in `about`
            _LOG.debug("%s cannot be used: %r", name, error)
        return None

    def _if_all_have(self, program: Compiled | None) -> Compiled | None:
        return program if self.every_process(program is not None) else None

    def _save(self, name: str, program: Compiled) -> None:
        try:
            content, *_ = serialize_executable.serialize(program)
        except Exception as error:  # the backend may not support this
            _LOG.debug("%s cannot be cached: %r", name, error)
        else:
            self.files.write(name, content)


def _without_place(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


@contextmanager
def without_persistent_cache() -> Iterator[None]:
    """Turns JAX's own cache off: programs are neither found nor saved there."""
    before = jax.config.values["jax_enable_compilation_cache"]
    # JAX reads the setting once, and again only after a reset.
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def is_cache_on() -> bool:
    """Whether programs are cached: JAX's cache is on, and not in a bucket."""
    directory = jax.config.values["jax_compilation_cache_dir"]
    is_on = jax.config.values["jax_enable_compilation_cache"] or _compiling_uncached.locked()
    return is_on and bool(directory) and "://" not in directory


def _cache_for(devices: Devices, every_process: EveryProcess | None) -> _Cache | None:
    """Returns None where programs are not cached or not compiled, where the devices do not exist,
    and for those of several processes without `every_process`.
    """
    if not is_cache_on() or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return None
    if are_among(jax.local_devices, devices):
        every_process = bool
    elif every_process is None or not are_among(jax.devices, devices):
        return None
    files = Files(folder_in(Path(jax.config.values["jax_compilation_cache_dir"])))
    return _Cache(files, devices, fingerprints.surroundings(devices), every_process)
