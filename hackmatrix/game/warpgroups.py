"""Runs a rule as one GPU kernel (Pallas, Mosaic): in a block, each of 128 threads has a board."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.mosaic import gpu as mosaic
from jax.experimental.pallas import mosaic_gpu

from hackmatrix.game.spreading import THREADS, number_of, spread_values
from hackmatrix.game.tracing import inside_of_kernel

Array = jax.Array
_COMPILER = mosaic_gpu.CompilerParams(
    lowering_semantics=mosaic.LoweringSemantics.Lane,
    unsafe_no_auto_barriers=True,  # a thread reads and writes nothing but its own board
)


def run(rule: Callable[[Any, Any], None], inputs: Any, outputs: Any) -> Any:
    """Runs a rule as one kernel, as `blocks.run` does. All inputs are packed into one array and all
    results into another, since each array is a pointer to pass and, in a loop, a copy.
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
    """Returns the number of rows of a leaf: 1 for [E], N for [N, E]."""
    return 1 if len(leaf.shape) == 1 else int(leaf.shape[0])


def _places(leaves: list[Any]) -> Iterator[tuple[Any, int]]:
    """Yields each leaf with its first row."""
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
    """Where a rule stores a result: `result[...]`, or `result[number]` for one of several words."""

    ref: Any
    row: int
    block: Any
    dtype = jnp.uint32

    def __setitem__(self, number: Any, value: Array) -> None:
        row = self.row if number is Ellipsis else self.row + number
        word = number_of(value, self.dtype) if value.dtype == bool else value.astype(self.dtype)
        self.ref[row, self.block] = spread_values(word)
