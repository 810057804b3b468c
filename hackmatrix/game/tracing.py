"""What the rules are traced for: the platform, and whether for a kernel or for a whole program.

A kernel (`kernels`) works on a block of boards at a time. Every value in it has the shape of that
block and no further axis. On a CPU the total work determines the speed, elsewhere the number of
sequential operations. A few functions must know both; the rules need not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Tree = TypeVar("Tree")


class _Target(NamedTuple):
    platform: str | None = None
    is_kernel: bool = False


# A user context is part of the keys of JAX's caches, so each target is traced on its own.
_target: Any = jax.make_user_context(_Target())


@contextmanager
def program_for(platform: str | None) -> Iterator[None]:
    """Traces for devices of this platform: "cpu", "gpu", "tpu", or None for JAX's default."""
    with _target(_Target(platform)):
        yield


@contextmanager
def inside_of_kernel(platform: str) -> Iterator[None]:
    with _target(_Target(platform, is_kernel=True)):
        yield


def in_kernel() -> bool:
    return bool(_target.value.is_kernel)


def in_gpu_kernel() -> bool:
    """Returns whether a kernel for GPUs is being traced."""
    return bool(_target.value == _Target("gpu", is_kernel=True))


def on_cpu() -> bool:
    return _platform() == "cpu"


def on_gpu() -> bool:
    return _platform() == "gpu"


def on_tpu() -> bool:
    return _platform() == "tpu"


def _platform() -> str:
    """Returns the target's platform, else that of `jax.default_device` (a device or a platform) if
    set, else JAX's.
    """
    chosen: Any = getattr(jax.config, "jax_default_device")  # noqa: B009  it has no type
    return _target.value.platform or getattr(chosen, "platform", chosen) or jax.default_backend()


def popcount(word: Array) -> Array:
    """Returns how many bits of a word are set."""
    if not in_gpu_kernel():
        return jax.lax.population_count(word)
    # Mosaic lacks population_count. These are the sums of 2, 4 and 8 bits, then of all four bytes.
    word = word - (word >> np.uint32(1) & np.uint32(0x55555555))
    word = (word & np.uint32(0x33333333)) + (word >> np.uint32(2) & np.uint32(0x33333333))
    word = word + (word >> np.uint32(4)) & np.uint32(0x0F0F0F0F)
    return word * np.uint32(0x01010101) >> np.uint32(24)


def while_some(
    is_needed: Callable[[Tree], Array], rule: Callable[[Tree], Tree], boards: Tree
) -> Tree:
    """Applies the rule to all boards while any of them needs it."""
    flags = _flags(boards)
    words = jax.lax.while_loop(
        lambda words: _some(is_needed(_with_flags(words, flags))),
        lambda words: _in_words(rule(_with_flags(words, flags))),
        _in_words(boards),
    )
    return _with_flags(words, flags)


def where_some(needed: Array, rule: Callable[[], Tree], boards: Tree) -> Tree:
    """Returns the result of the rule if any board of the block needs it, else the boards. For
    kernels only.
    """
    words = jax.lax.cond(_some(needed), lambda: _in_words(rule()), lambda: _in_words(boards))
    return _with_flags(words, _flags(boards))


def _some(needed: Array) -> Array:
    return needed.astype(jnp.int32).max() > 0


# Loops and branches in kernels carry numbers, but no booleans (flags).


def _flags(boards: Tree) -> Tree:
    """Returns which leaves are flags."""
    return jax.tree.map(lambda leaf: leaf.dtype == bool, boards)


def _in_words(boards: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.int32) if leaf.dtype == bool else leaf, boards)


def _with_flags(words: Tree, flags: Tree) -> Tree:
    return jax.tree.map(lambda word, is_flag: word != 0 if is_flag else word, words, flags)
