"""What the rules are traced for: a program on all boards, or the inside of a kernel; and where it
is to run.

A kernel (`kernels`) works on a block of boards at a time. Every value in it has the shape of that
block and no axis besides. On a CPU the work counts, elsewhere the number of operations one after
the other. A few functions must know both; the rules need not.
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


# JAX keeps what it has traced; this is part of what it goes by.
_target: Any = jax.make_user_context(_Target())


@contextmanager
def program_for(platform: str | None) -> Iterator[None]:
    """For devices of this platform, "cpu", "gpu" or "tpu"; None is JAX's default."""
    with _target(_Target(platform)):
        yield


@contextmanager
def inside_of_kernel(platform: str) -> Iterator[None]:
    with _target(_Target(platform, is_kernel=True)):
        yield


def in_kernel() -> bool:
    return bool(_target.value.is_kernel)


def for_gpu() -> bool:
    """Whether this is the inside of a kernel for GPUs."""
    return bool(_target.value == _Target("gpu", is_kernel=True))


def on_cpu() -> bool:
    return _platform() == "cpu"


def on_gpu() -> bool:
    return _platform() == "gpu"


def _platform() -> str:
    return _target.value.platform or _default_platform()


def _default_platform() -> str:
    """That of `jax.default_device`, which may be a device or a platform, where one is set."""
    chosen: Any = getattr(jax.config, "jax_default_device")  # noqa: B009  it has no type
    return getattr(chosen, "platform", chosen) or jax.default_backend()


def ones(word: Array) -> Array:
    """How many bits of a word are set."""
    if not for_gpu():
        return jax.lax.population_count(word)
    # Mosaic has no instruction for it: sums of 2, 4 and 8 bits, and then of all four bytes.
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
    """In a kernel: what the rule gives if any board of the block needs it, else the boards."""
    words = jax.lax.cond(_some(needed), lambda: _in_words(rule()), lambda: _in_words(boards))
    return _with_flags(words, _flags(boards))


def _some(needed: Array) -> Array:
    return needed.astype(jnp.int32).max() > 0


# Loops of a kernel carry numbers and no flags.


def _flags(boards: Tree) -> Tree:
    """Which leaves are flags."""
    return jax.tree.map(lambda leaf: leaf.dtype == bool, boards)


def _in_words(boards: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.int32) if leaf.dtype == bool else leaf, boards)


def _with_flags(words: Tree, flags: Tree) -> Tree:
    return jax.tree.map(lambda word, is_flag: word != 0 if is_flag else word, words, flags)
