"""Functions that the compiler keeps apart from their callers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
from jax.experimental.xla_metadata import set_xla_metadata

from hackmatrix.game.tracing import in_kernel

Params = ParamSpec("Params")
Result = TypeVar("Result")


def outlined(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Computes the function's results once, whoever uses them.

    XLA fuses elementwise work into each of its consumers, and so repeats it for each: where a flood
    fill feeds twenty words of state it would run twenty times, and be compiled twenty times. An
    outlined function is a call that XLA for CPU does not inline; other backends, which fuse several
    outputs into one kernel, may. In a kernel of ours there is nothing to keep apart.
    """
    compiled = jax.jit(function)

    @functools.wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        if in_kernel():
            return function(*args, **kwargs)
        # The attribute belongs on the call itself, which is what computes these values.
        return set_xla_metadata(compiled(*args, **kwargs), inlineable="false")

    return call
