"""Functions that the compiler keeps apart from their callers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
from jax.experimental.xla_metadata import set_xla_metadata

from hackmatrix.game.tracing import in_kernel, on_cpu

Params = ParamSpec("Params")
Result = TypeVar("Result")


def outlined(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Computes the function's results once, whoever uses them.

    XLA fuses elementwise work into each of its consumers, and so repeats it for each: where a flood
    fill feeds twenty words of state it would run twenty times, and be compiled twenty times. On a
    CPU an outlined function is a call that XLA does not inline. Elsewhere XLA fuses several outputs
    into one kernel, so nothing must be kept apart: in a call that is not inlined XLA for GPUs fuses
    nothing, and each operation would be a kernel of its own.
    """
    compiled = jax.jit(function)

    @functools.wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        if in_kernel():
            return function(*args, **kwargs)
        results = compiled(*args, **kwargs)
        # The attribute belongs on the call itself, which is what computes these values.
        return set_xla_metadata(results, inlineable="false") if on_cpu() else results

    return call
