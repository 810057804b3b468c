"""Checks whether the machines of a run can train. Each check returns a finding, good or bad.
(installed.py checks the installed packages.)
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import jax

from hackmatrix import machine, plugins
from hackmatrix.errors import UserError
from hackmatrix.parallel.agreement import gather
from hackmatrix.rl.distributions import library
from hackmatrix.train.guards.consistency import compare
from hackmatrix.train.guards.installed import INSTALL, Finding
from hackmatrix.train.runs.places import BUCKETS, place
from hackmatrix.train.runs.provenance import versions
from hackmatrix.train.runs.shared_path import blind_processes

LOCK = Path("/tmp/libtpu_lockfile")
DEVICES = "devices"
NOT_COMPILED = "JAX_DISABLE_JIT is set, but training is one compiled program: unset it"
_MOST_SKEW_SECONDS = 5.0
_LIBRARIES = "flax", "optax", "mctx", "orbax.checkpoint", "ml_collections", "PIL.Image"


def examine(workdir: str) -> Iterator[Finding]:
    """Yields all findings; the TPU lock is checked before JAX takes it. All processes call this."""
    yield lock(LOCK) if machine.has_tpu() else Finding("TPU lock", "this machine has no TPU")
    yield (found := devices())
    if not found.is_good:
        return
    if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        yield Finding("compilation", NOT_COMPILED, False)
    yield distributions()
    yield libraries()
    yield cache(jax.config.values["jax_compilation_cache_dir"])
    yield directory(workdir)
    if jax.process_count() > 1:
        yield clocks(gather(time.time()))
        yield same_versions(gather(versions()))


def bad_elsewhere(findings: list[Finding]) -> list[Finding]:
    """Returns the bad findings of other processes. All processes call this, except that a process
    without devices cannot communicate and returns none.
    """
    if any(each.about == DEVICES and not each.is_good for each in findings):
        return []
    bad = gather([[each.about, each.text] for each in findings if not each.is_good])
    return [
        Finding(about, f"process {process}: {text}", False)
        for process, own in enumerate(bad)
        for about, text in own
        if process != jax.process_index()
    ]


def devices() -> Finding:
    try:
        found = jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter where CUDA sees no GPU
        why, *_ = str(error).splitlines() or ["set JAX_PLATFORMS='' to use the devices that exist"]
        wanted = jax.config.values["jax_platforms"]
        said = f"JAX_PLATFORMS={wanted}, but JAX finds no such device here: " if wanted else ""
        return Finding(DEVICES, f"{said}{why}", False)
    here, hosts = jax.local_device_count(), jax.process_count()
    return Finding(
        DEVICES,
        f"{len(found)} x {found[0].device_kind}, {here} of them here; {hosts} "
        f"process{'es' if hosts > 1 else ''}; jax {jax.__version__}",
    )


def directory(workdir: str) -> Finding:
    """Checks that `workdir` can be written, and is the same directory for all processes."""
    if failures := [each for each in gather(_cannot_write(workdir)) if each]:
        return Finding("workdir", f"{failures[0]}: choose another --workdir", False)
    try:
        blind = blind_processes(place(workdir))
    except UserError as error:
        return Finding("workdir", f"{error}: choose another --workdir", False)
    if blind:
        text = (
            f"processes {blind} see a different {workdir}: use a shared one or {BUCKETS}BUCKET/..."
        )
        return Finding("workdir", text, False)
    shared = ", shared by all processes" if jax.process_count() > 1 else ""
    return Finding("workdir", f"{workdir} can be written{shared}")


def distributions() -> Finding:
    """Checks the library that training loads only when it compiles."""
    try:
        library()
    except UserError as error:
        return Finding(
            "distrax", f"{error}: pip install --upgrade tfp-nightly, or {INSTALL}", False
        )
    return Finding("distrax", "can be loaded")


def libraries() -> Finding:
    """Checks the other libraries that programs load only when they need them."""
    for name in _LIBRARIES:
        try:
            with plugins.as_user_error(f"{name} cannot be loaded"):
                importlib.import_module(name)
        except UserError as error:
            return Finding("libraries", f"{error}: {INSTALL}", False)
    return Finding("libraries", f"{', '.join(_LIBRARIES)} can be loaded")


def cache(path: str | None) -> Finding:
    if not jax.config.values["jax_enable_compilation_cache"]:
        text = "compiled programs are not cached: JAX_ENABLE_COMPILATION_CACHE turns that off"
        return Finding("cache", text)
    if not path:
        return Finding("cache", "compiled programs are not cached: set JAX_COMPILATION_CACHE_DIR")
    if failure := _cannot_write(path):
        text = f"{failure}, so every start recompiles: set JAX_COMPILATION_CACHE_DIR to another"
        return Finding("cache", text)
    return Finding("cache", f"compiled programs are cached in {path}")


def lock(path: Path) -> Finding:
    """Checks for libtpu's lock: a killed program leaves it behind, and the next one fails."""
    if not path.exists():
        return Finding("TPU lock", "none")
    holders, hidden = _holders(path)
    if holders:
        return Finding(
            "TPU lock", f"process {holders[0]} uses the TPU (it holds {path}): stop it", False
        )
    if hidden:
        text = (
            f"{path} is held by another user's process or left behind by a program that ended: "
            f"sudo lsof {path} shows who holds it; if nobody does, remove it"
        )
        return Finding("TPU lock", text, False)
    return Finding("TPU lock", f"{path} was left behind by a program that ended: remove it", False)


def clocks(times: list[float]) -> Finding:
    skew = max(times) - min(times)
    text = f"{skew:.1f} s between processes, including the time to compare"
    if skew > _MOST_SKEW_SECONDS:
        return Finding(
            "clocks",
            f"{text}: synchronise them, because logs and checkpoints have timestamps",
            False,
        )
    return Finding("clocks", text)


def same_versions(found: list[dict[str, str]]) -> Finding:
    try:
        compare(found)
    except UserError as error:
        return Finding("versions", f"{error}: install the same versions".replace("\n", "; "), False)
    return Finding("versions", "the same in all processes")


def _cannot_write(directory: str) -> str | None:
    try:
        place(directory).try_to_write()
    except (OSError, UserError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        return f"{directory} cannot be written ({why})"
    return None


def _holders(path: Path) -> tuple[list[int], bool]:
    """Returns the processes that have the file open, and whether some processes could not be
    checked for lack of permission.
    """
    found, hidden = [], False
    for opened in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(os.path.realpath(opened / each) == str(path) for each in os.listdir(opened)):
                found.append(int(opened.parent.name))
        except PermissionError:
            hidden = True
        except OSError:  # it has just ended
            continue
    return found, hidden
