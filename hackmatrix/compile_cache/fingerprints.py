"""Fingerprints of compiled programs: texts that are the same only if the program is the same.

A hash covers the sources of this package, so its functions and classes are identified by name;
those of a package whose environments are trained on, by name and hash. Anything that cannot be
identified for certain, such as a network from another package, raises `Unknown`.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import jax
import numpy as np

from hackmatrix.compile_cache.sources import PACKAGE, source_hash, version

# What traces and compiles programs, and packages whose functions are traced.
_PACKAGES = (
    "jax", "jaxlib", "numpy", "flax", "optax", "chex", "distrax", "mctx",
    "tensorflow-probability", "tfp-nightly",
)  # fmt: skip
_OF_ENVIRONMENTS = ("gymnax",)
_ENVIRONMENT = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
# Prefixes of JAX settings on where programs run or are cached, or on logs: not on programs.
_ELSEWHERE = (
    "jax_compilation_cache", "jax_cuda_visible_devices", "jax_default_device",
    "jax_enable_compilation_cache", "jax_log", "jax_persistent_cache", "jax_platforms",
    "jax_rocm_visible_devices",
)  # fmt: skip
_CPU = ("flags", "Features", "model name")  # in Linux: on x86, on ARM, on both
_PLAIN = (type(None), bool, int, float, str, bytes)


class Unknown(Exception):
    """Raised for a part of a program that may change while its name stays the same."""


def surroundings(devices: Sequence[jax.Device]) -> str:
    """Returns what the compiler's output may depend on besides the program."""
    client = devices[0].client
    kind = client.platform, client.platform_version, client.process_index(), len(client.devices())
    return repr(
        (
            sys.version,
            {name: version(name) for name in _PACKAGES},
            {name: _flags(name) for name in _ENVIRONMENT},
            settings(),
            kind,
            [_where(device) for device in devices],
            _machine(),
        )
    )


def _flags(name: str) -> str | bytes | None:
    """Returns the flags in an environment variable, or in the file that it names instead."""
    value = os.environ.get(name)
    if value and not value.lstrip().startswith("-"):
        with suppress(OSError):
            return Path(value).read_bytes()
    return value


def _where(device: jax.Device) -> tuple[Any, ...]:
    """Identifies a device and its place among the others: programs depend on their topology."""
    place = (getattr(device, name, None) for name in ("coords", "slice_index"))
    return device.id, device.device_kind, device.process_index, *place


def settings() -> dict[str, Any]:
    """Returns the settings of JAX, including those that a context manager has set."""
    return {
        name: getattr(jax.config, name, value)
        for name, value in sorted(jax.config.values.items())
        if not name.startswith(_ELSEWHERE)
    }


def arguments(given: Any) -> str:
    """Returns the fingerprint of a tree of arrays: structure, shapes, dtypes and shardings."""
    leaves, tree = jax.tree.flatten(given)
    places = [getattr(leaf, "sharding", None) for leaf in leaves]
    return repr((tree, [repr(jax.typeof(leaf)) for leaf in leaves], places))


def of(thing: Any) -> str:
    """Returns the fingerprint of a function or a value; raises Unknown if it has no certain one."""
    match thing:
        case Enum():
            return f"{_name(type(thing))}.{thing.name}"
        case _ if isinstance(thing, _PLAIN):
            return repr(thing)
        case functools.partial():
            return f"partial({of((thing.func, thing.args, thing.keywords))})"
        case MethodType():
            return f"{of(thing.__self__)}.{thing.__name__}"
        case FunctionType() if thing.__closure__ is None:
            return _name(thing)
        case type():
            return _name(thing)
        case tuple() | list():
            return f"[{', '.join(map(of, thing))}]"
        case Mapping():
            return f"mapping{of([*thing.items()])}"
        case np.ndarray():
            return f"{thing.dtype}{thing.shape}{thing.tobytes()!r}"
        case jax.Array() if _is_plain(thing):
            return f"{arguments(thing)} {thing.committed} {of(np.asarray(thing))}"
        case _ if is_dataclass(thing):
            values = [getattr(thing, field.name) for field in fields(thing)]
            return f"{_name(type(thing))}{of(values)}"
        case jax.stages.Wrapped():
            return of(getattr(thing, "__wrapped__", None))
        case _ if hasattr(thing, "__dict__"):
            return f"{_name(type(thing))}({of(vars(thing))})"
    raise Unknown(repr(thing))


def _is_plain(array: jax.Array) -> bool:
    """Whether an array has numbers, all on one device, and is no tracer."""
    return (
        jax.dtypes.issubdtype(array.dtype, np.number)
        and not isinstance(array, jax.core.Tracer)
        and len(array.devices()) == 1
    )


def _name(thing: type | FunctionType) -> str:
    """Returns the importable name of a function or class, with a hash of the sources of its package
    if that is not this one.
    """
    name = f"{thing.__module__}.{thing.__qualname__}"
    package = name.partition(".")[0]
    if "<" in name or package not in (PACKAGE.name, *_OF_ENVIRONMENTS):
        raise Unknown(name)
    if package == PACKAGE.name:
        return name
    file = sys.modules[package].__file__
    assert file
    return f"{name} of {source_hash(Path(file).parent)}"


@functools.cache
def _machine() -> tuple[str, ...]:
    """Describes the processor, whose instructions a program may use, and counts its cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        first = platform.processor()
    known = [line for line in first.splitlines() if line.startswith(_CPU)] or [first]
    return platform.machine(), str(cores), *known
