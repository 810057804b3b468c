"""A rule as one kernel for GPUs (Pallas, through Mosaic): 128 threads have a board each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.mosaic import gpu as mosaic
from jax.experimental.pallas import mosaic_gpu
from jax.extend.core import ClosedJaxpr, Literal
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, nvvm, vector

from hackmatrix.game.tracing import inside_of_kernel

Array = jax.Array
Tree = TypeVar("Tree")
THREADS = 128
_ALL_OF_WARP = 0xFFFFFFFF
_A_BOARD_EACH = mosaic_gpu.Layout.WG_STRIDED((THREADS,), vec_size=1)
_COMPILER = mosaic_gpu.CompilerParams(
    lowering_semantics=mosaic.LoweringSemantics.Lane,
    unsafe_no_auto_barriers=True,  # a thread reads and writes nothing but its own board
)


def run(rule: Callable[[Any, Any], None], inputs: Any, outputs: Any) -> Any:
    """As `blocks.run`. What the kernel is given is one array, and what it makes another, as an
    array is a pointer to hand over and, in a loop, a copy.
    """
    given, shape = jax.tree.flatten(inputs)
    wanted, results_shape = jax.tree.flatten(outputs)
    boards = given[0].shape[-1]
    blocks = -(-boards // THREADS)

    def kernel(given_ref: Any, results_ref: Any) -> None:
        block = pl.ds(jax.lax.axis_index("block") * THREADS, THREADS)
        with inside_of_kernel("gpu"):
            values = [_load(given_ref, *each, block) for each in _places(given)]
            results = [_Result(results_ref, row, block) for _, row in _places(wanted)]
            rule(jax.tree.unflatten(shape, values), jax.tree.unflatten(results_shape, results))

    def size(of: list[Any]) -> int:
        return sum(_rows(leaf) for leaf in of)

    words = jnp.concatenate([_words(leaf) for leaf in given])
    words = jnp.pad(words, [(0, 0), (0, blocks * THREADS - boards)])
    (results,) = pl.kernel(
        kernel,
        out_type=(
            jax.ShapeDtypeStruct(
                (size(wanted), blocks * THREADS),
                jnp.uint32,
                manual_axis_type=jax.typeof(words).manual_axis_type,
            ),
        ),
        mesh=mosaic_gpu.Mesh(grid=(blocks,), grid_names=("block",)),
        compiler_params=_COMPILER,
        name=rule.__name__,
    )(words)
    found = [
        _read(results[row : row + _rows(leaf), :boards], leaf) for leaf, row in _places(wanted)
    ]
    return jax.tree.unflatten(results_shape, found)


def _rows(leaf: Any) -> int:
    """[E] is a row, [N, E] are N."""
    return 1 if len(leaf.shape) == 1 else int(leaf.shape[0])


def _places(leaves: list[Any]) -> Iterator[tuple[Any, int]]:
    """The leaves, and the first row of each."""
    row = 0
    for leaf in leaves:
        yield leaf, row
        row += _rows(leaf)


def _words(leaf: Array) -> Array:
    return leaf.astype(jnp.uint32).reshape(_rows(leaf), -1)


def _read(rows: Array, leaf: Any) -> Array:
    return _typed(rows.reshape(leaf.shape), leaf.dtype)


def _typed(word: Array, kind: Any) -> Array:
    return word != 0 if kind == jnp.bool_ else word.astype(kind)


def _load(ref: Any, leaf: Any, row: int, block: Any) -> Any:
    words = tuple(_typed(ref[row + each, block], leaf.dtype) for each in range(_rows(leaf)))
    return words[0] if len(leaf.shape) == 1 else words


@dataclass(frozen=True)
class _Result:
    """Where a rule stores a result: `result[...]` or, of several words, `result[number]`."""

    ref: Any
    row: int
    block: Any
    dtype = jnp.uint32

    def __setitem__(self, number: Any, value: Array) -> None:
        row = self.row if number is Ellipsis else self.row + number
        word = _number(value, self.dtype) if value.dtype == bool else value.astype(self.dtype)
        self.ref[row, self.block] = _spread(word)


def spread(rule: Callable[..., Tree]) -> Callable[..., Tree]:
    """The rule, written in a way that Mosaic takes: where it selects a constant, and in what loops
    and branches are given and make, each thread has the constant.

    Without this a loop that begins with a constant is refused, and a number that may be a constant
    is taken to have no sign.
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
        return [_number(values[0], equation.params["new_dtype"])]
    parameters = {name: _rewritten(each) for name, each in equation.params.items()}
    if equation.primitive.name == "select_n":
        *others, last = values  # Mosaic gives the result the sign of this one
        values = [*others, _spread(last)]
    elif any(parameters[name] is not equation.params[name] for name in parameters):
        values = _spread(values)
    results = equation.primitive.bind(*values, **parameters)
    return results if equation.primitive.multiple_results else [results]


@mosaic_gpu.inline_mgpu(
    arg_types=(_A_BOARD_EACH,),
    return_type=mosaic_gpu.ShapeDtypeStruct((), jnp.int32, layout=mosaic_gpu.Layout.WG_SPLAT(())),
)
def _of_any_in_warp(_: Any, flags: mosaic.FragmentedArray) -> mosaic.FragmentedArray:
    """1 where any of the boards of 32 threads has a 1: each warp goes its own way, and waits for no
    other.
    """
    word = ir.IntegerType.get_signless(32)
    (register,) = flags.registers.flat
    flag = vector.extract(register, dynamic_position=[], static_position=[0])
    is_set = arith.cmpi(arith.CmpIPredicate.ne, flag, mosaic.c(0, word))
    is_any_set = nvvm.vote_sync(mosaic.c(_ALL_OF_WARP, word), is_set, "any")
    return mosaic.FragmentedArray.splat(arith.extui(word, is_any_set), shape=(), is_signed=True)


def _number(flag: Array, kind: Any) -> Array:
    """1 or 0, selected: for each conversion of a flag Mosaic would start a program, to ask for the
    version of the assembler.
    """
    one, zero = (_spread(jnp.full(flag.shape, number, kind)) for number in (1, 0))
    return jax.lax.select(flag, one, zero)


def _rewritten(parameter: Any) -> Any:
    """Programs within an operation."""
    if isinstance(parameter, tuple):
        parts = tuple(map(_rewritten, parameter))
        are_the_same = all(new is old for new, old in zip(parts, parameter, strict=True))
        return parameter if are_the_same else parts
    if not isinstance(parameter, ClosedJaxpr):
        return parameter
    return jax.make_jaxpr(lambda *given: _spread(_evaluate(parameter, given)))(*parameter.in_avals)


def _spread(values: Tree) -> Tree:
    def one(value: Any) -> Any:
        is_word_of_boards = jnp.shape(value) == (THREADS,)
        return mosaic_gpu.layout_cast(value, _A_BOARD_EACH) if is_word_of_boards else value

    return jax.tree.map(one, values)
