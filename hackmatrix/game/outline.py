"""Functions that the compiler does not inline into their callers."""

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
    """Wraps a function so that its results are computed once, however many consumers they have.

    XLA fuses elementwise work into each of its consumers, and so repeats it for each: a flood fill
    that feeds twenty words of state would run twenty times, and be compiled twenty times. On a CPU
    an outlined function is a call that XLA does not inline. Elsewhere XLA fuses several outputs
    into one kernel, so there is no need for this. On GPUs it would even be harmful: XLA fuses
    nothing inside a call that is not inlined, and each operation would be a kernel of its own.
    """
    compiled = jax.jit(function)

    @functools.wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        if in_kernel():
            return function(*args, **kwargs)
        results = compiled(*args, **kwargs)
        # This sets the attribute on the operation that produces the results, which is the call.
        return set_xla_metadata(results, inlineable="false") if on_cpu() else results

    return call
