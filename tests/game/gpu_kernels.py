"""Interprets kernels for GPUs, and inspects their jaxprs, on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any
from unittest.mock import patch

from jax.experimental import pallas as pl
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from hackmatrix.game import spreading, warpgroups

WARP = 32
# Primitives that have jaxprs among their parameters.
LOOPS_AND_BRANCHES = "while", "scan", "cond"


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function interpret its kernels for GPUs."""

    @wraps(function)
    def run(*given: Any) -> Any:
        with _interpret_mode():
            return function(*given)

    return run


@contextmanager
def _interpret_mode() -> Iterator[None]:
    """A block is a single warp here, as each warp branches on its own boards."""
    with (
        patch("jax.experimental.pallas.kernel", partial(pl.kernel, interpret=True)),
        patch("jax.lax.axis_index", lambda _: pl.program_id(0)),
        patch("jax.experimental.pallas.mosaic_gpu.layout_cast", lambda value, _: value),
        patch.object(spreading, "_of_any_in_warp", lambda flags: flags.max()),
        patch.object(spreading, "THREADS", WARP),
        patch.object(warpgroups, "THREADS", WARP),
    ):
        yield


def not_spread(program: Jaxpr) -> Iterator[str]:
    """Finds the operations of a kernel that may take or make a constant of which not every thread
    has a copy.
    """
    spread = _spread(program)
    for equation in program.eqns:
        name = equation.primitive.name
        parts = list(_programs(tuple(equation.params.values())))
        for part in parts:
            yield from not_spread(part)
        if not any(map(_is_of_boards, equation.outvars)):
            continue
        if name == "select_n" and not _are_in(spread, equation.invars[-1:]):
            yield f"{name} is given a constant"
        if name in LOOPS_AND_BRANCHES:
            if not _are_in(spread, equation.invars):
                yield f"{name} is given a constant"
            if not all(_are_in(_spread(part), part.outvars) for part in parts):
                yield f"{name} makes a constant"


def _spread(program: Jaxpr) -> set[Var]:
    casts: list[JaxprEqn] = [each for each in program.eqns if each.primitive.name == "layout_cast"]
    return {value for cast in casts for value in cast.outvars}


def _are_in(spread: set[Var], values: list[Var | Literal]) -> bool:
    return all(isinstance(each, Var) and each in spread for each in filter(_is_of_boards, values))


def _is_of_boards(value: Var | Literal) -> bool:
    return getattr(value.aval, "shape", None) == (spreading.THREADS,)


def _programs(parameter: Any) -> Iterator[Jaxpr]:
    if isinstance(parameter, tuple):
        for each in parameter:
            yield from _programs(each)
    elif isinstance(parameter, ClosedJaxpr):
        yield parameter.jaxpr
    elif isinstance(parameter, Jaxpr):
        yield parameter
