"""Runs functions of boards as Pallas kernels, which process one block of boards at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu

from hackmatrix.game.tracing import in_gpu_kernel, inside_of_kernel

Array = jax.Array
Tree = TypeVar("Tree")
LANES = 128  # boards in a row
_ROWS = 8  # rows in a block: a TPU register holds 8 x 128 words
# Blocks are independent, so both cores of a chip may work on them.
_COMPILER = tpu.CompilerParams(dimension_semantics=("parallel",))


def run(
    rule: Callable[[Any, Any], None],
    inputs: Any,
    outputs: Any,
    platform: str,
    in_place: int = 0,
) -> Any:
    """Runs a rule as one kernel: on a GPU through `warpgroups`, on a CPU interpreted.

    Leaves are [E], or [N, E] for N words per board, which the rule receives as a tuple of N values.
    The rule stores its results into the references that it receives as outputs. The first
    `in_place` output leaves reuse the memory of the first input leaves (except on a GPU).
    """
    if platform == "gpu":
        # Imported only here: it loads Mosaic, which takes time and is not part of every JAX.
        from hackmatrix.game import warpgroups

        return warpgroups.run(rule, inputs, outputs)
    given, shape = jax.tree.flatten(inputs)
    wanted, results_shape = jax.tree.flatten(outputs)
    layout = Layout.of(given[0].shape[-1])

    def kernel(*refs: Any) -> None:
        with inside_of_kernel(platform):
            values = [_load(*each) for each in zip(refs[: len(given)], given, strict=True)]
            rule(
                jax.tree.unflatten(shape, values),
                jax.tree.unflatten(results_shape, refs[len(given) :]),
            )

    # The mesh axes over which the boards vary: shard_map needs them for the results.
    kinds = (jax.typeof(leaf).manual_axis_type for leaf in given)
    over = max(kinds, key=lambda kind: len(kind.varying))
    results = pl.pallas_call(
        kernel,
        grid=(layout.blocks,),
        in_specs=[layout.spec(leaf) for leaf in given],
        out_specs=[layout.spec(leaf) for leaf in wanted],
        out_shape=[layout.shape(leaf, over) for leaf in wanted],
        input_output_aliases={number: number for number in range(in_place)},
        interpret=platform == "cpu",
        compiler_params=_COMPILER if platform == "tpu" else None,
        name=rule.__name__,
    )(*map(layout.arranged, given))
    return jax.tree.unflatten(results_shape, map(layout.as_before, results, wanted))


def for_this_platform(rule: Callable[..., Tree]) -> Callable[..., Tree]:
    """Returns part of a rule in the form that kernels of this platform accept."""
    if not in_gpu_kernel():
        return rule
    from hackmatrix.game import spreading

    return spreading.spread(rule)


def store(refs: Any, values: Any) -> None:
    """Stores a pytree of results into references; for use inside a rule."""

    def store_one(ref: Any, value: Any) -> None:
        if isinstance(value, tuple):
            for number, each in enumerate(value):
                ref[number] = each
        else:
            ref[...] = value.astype(ref.dtype)

    jax.tree.map(store_one, refs, values, is_leaf=lambda node: hasattr(node, "dtype"))


def _load(ref: Any, leaf: Any) -> Any:
    if len(leaf.shape) > 1:
        return tuple(ref[number] for number in range(leaf.shape[0]))
    return ref[...] != 0 if leaf.dtype == bool else ref[...]


@dataclass(frozen=True)
class Layout:
    """How boards are arranged in blocks: as [rows, LANES], padded at the end with zeros."""

    boards: int
    rows: int
    rows_a_block: int

    @classmethod
    def of(cls, boards: int) -> Layout:
        rows = -(-boards // LANES)
        block = min(rows, _ROWS)
        return cls(boards, -(-rows // block) * block, block)

    @property
    def blocks(self) -> int:
        return self.rows // self.rows_a_block

    def spec(self, leaf: Any) -> pl.BlockSpec:
        if len(leaf.shape) == 1:
            return pl.BlockSpec((self.rows_a_block, LANES), lambda block: (block, 0))
        words = leaf.shape[0]
        return pl.BlockSpec((words, self.rows_a_block, LANES), lambda block: (0, block, 0))

    def shape(self, leaf: Any, over: Any) -> jax.ShapeDtypeStruct:
        """Returns the shape and dtype of a leaf in a kernel's memory, where flags are i32."""
        kind = jnp.int32 if leaf.dtype == bool else leaf.dtype
        shape = *leaf.shape[:-1], self.rows, LANES
        return jax.ShapeDtypeStruct(shape, kind, manual_axis_type=over)

    def arranged(self, leaf: Array) -> Array:
        missing = self.rows * LANES - self.boards
        padding = [*[(0, 0)] * (leaf.ndim - 1), (0, missing)]
        words = leaf.astype(jnp.int32) if leaf.dtype == bool else leaf
        return jnp.pad(words, padding).reshape(*leaf.shape[:-1], self.rows, LANES)

    def as_before(self, result: Array, leaf: Any) -> Array:
        flat = result.reshape(*leaf.shape[:-1], self.rows * LANES)[..., : self.boards]
        return flat.astype(leaf.dtype)
