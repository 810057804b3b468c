"""Rewriting rules for Mosaic GPU kernels: constants are spread over the threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.mosaic import gpu as mosaic
from jax.experimental.pallas import mosaic_gpu
from jax.extend.core import ClosedJaxpr, Literal
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, nvvm, vector

Array = jax.Array
Tree = TypeVar("Tree")
THREADS = 128  # in a block, one for each board
_ALL_OF_WARP = 0xFFFFFFFF
_A_BOARD_EACH = mosaic_gpu.Layout.WG_STRIDED((THREADS,), vec_size=1)


def spread(rule: Callable[..., Tree]) -> Callable[..., Tree]:
    """Rewrites a rule into a form that Mosaic accepts: where it selects a constant, and where a
    constant enters or leaves a loop or a branch, each thread gets a copy of it.

    Without this Mosaic refuses a loop that begins with a constant, and takes a number that may be a
    constant to be unsigned.
    """

    def spread_rule(*arguments: Any) -> Tree:
        words = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arguments)
        closed, shape = jax.make_jaxpr(rule, return_shape=True)(*words)
        values = _evaluate(closed, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), values)

    return spread_rule


def _evaluate(closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def value(of: Any) -> Any:
        return of.val if isinstance(of, Literal) else values[of]

    for equation in jaxpr.eqns:
        results = _apply(equation, [value(each) for each in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [value(each) for each in jaxpr.outvars]


def _apply(equation: Any, values: list[Any]) -> Any:
    if equation.primitive.name == "jit":
        return _evaluate(equation.params["jaxpr"], values)
    if equation.primitive.name == "reduce_max":
        return [_of_any_in_warp(*values)]
    if equation.primitive.name == "convert_element_type" and values[0].dtype == bool:
        return [number_of(values[0], equation.params["new_dtype"])]
    parameters = {name: _rewritten(each) for name, each in equation.params.items()}
    if equation.primitive.name == "select_n":
        *others, last = values  # Mosaic gives the result the signedness of this one
        values = [*others, spread_values(last)]
    elif any(parameters[name] is not equation.params[name] for name in parameters):
        values = spread_values(values)
    results = equation.primitive.bind(*values, **parameters)
    return results if equation.primitive.multiple_results else [results]


@mosaic_gpu.inline_mgpu(
    arg_types=(_A_BOARD_EACH,),
    return_type=mosaic_gpu.ShapeDtypeStruct((), jnp.int32, layout=mosaic_gpu.Layout.WG_SPLAT(())),
)
def _of_any_in_warp(_: Any, flags: mosaic.FragmentedArray) -> mosaic.FragmentedArray:
    """Returns 1 if any of the 32 boards of a warp has a nonzero flag. So each warp branches on its
    own boards, and waits for no other warp.
    """
    word = ir.IntegerType.get_signless(32)
    (register,) = flags.registers.flat
    flag = vector.extract(register, dynamic_position=[], static_position=[0])
    is_set = arith.cmpi(arith.CmpIPredicate.ne, flag, mosaic.c(0, word))
    is_any_set = nvvm.vote_sync(mosaic.c(_ALL_OF_WARP, word), is_set, "any")
    return mosaic.FragmentedArray.splat(arith.extui(word, is_any_set), shape=(), is_signed=True)


def number_of(flag: Array, kind: Any) -> Array:
    """Converts a flag to 1 or 0 by a select. For each conversion operation Mosaic would start a
    process to ask for the assembler's version.
    """
    one, zero = (spread_values(jnp.full(flag.shape, number, kind)) for number in (1, 0))
    return jax.lax.select(flag, one, zero)


def _rewritten(parameter: Any) -> Any:
    """Rewrites the jaxprs among an operation's parameters; returns others as they are."""
    if isinstance(parameter, tuple):
        parts = tuple(map(_rewritten, parameter))
        are_the_same = all(new is old for new, old in zip(parts, parameter, strict=True))
        return parameter if are_the_same else parts
    if not isinstance(parameter, ClosedJaxpr):
        return parameter
    return jax.make_jaxpr(lambda *given: spread_values(_evaluate(parameter, given)))(
        *parameter.in_avals
    )


def spread_values(values: Tree) -> Tree:
    """Gives each thread its own copy of the values that have a number for each board, even of those
    that are constants.
    """

    def one(value: Any) -> Any:
        is_word_of_boards = jnp.shape(value) == (THREADS,)
        return mosaic_gpu.layout_cast(value, _A_BOARD_EACH) if is_word_of_boards else value

    return jax.tree.map(one, values)
