"""Rules as kernels for GPUs, interpreted here: they take and return any number of boards, constants
are spread over the threads, and results do not change.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_kernels import interpreted, not_spread
from jax.sharding import Mesh, PartitionSpec

from hackmatrix.game import blocks, tracing, warpgroups
from hackmatrix.game.spreading import THREADS
from hackmatrix.game.tracing import where_some, while_some

Array = jax.Array
BOARDS = 2 * THREADS + 44  # three blocks, of which the third is not full


def choosing(number: Array, word: Array) -> Any:
    """Selects signed and unsigned constants."""
    is_odd = number & 1 != 0
    low = jnp.where(is_odd, np.int32(-1), np.int32(5)) // 2
    return jnp.where(low < 0, np.int32(-9), number), jnp.where(is_odd, word, np.uint32(7))


def counting(number: Array, word: Array) -> Any:
    """A loop that begins with a constant and runs until no board needs it."""

    def once(loop: tuple[Array, Array]) -> tuple[Array, Array]:
        count, left = loop
        is_needed = left > 0
        return count + is_needed, jnp.where(is_needed, left - 7, left)

    return while_some(lambda loop: loop[1] > 0, once, (jnp.zeros_like(number), number))


def flagging(number: Array, word: Array) -> Any:
    """A loop that carries a flag."""

    def once(loop: tuple[Array, Array]) -> tuple[Array, Array]:
        is_found, left = loop
        return is_found | (left & 15 == 9), jnp.where(is_found, left, left >> np.uint32(1))

    begin = jnp.zeros_like(number, bool), word
    found, left = while_some(lambda loop: ~loop[0] & (loop[1] != 0), once, begin)
    return found.astype(jnp.int32), left


def summing(number: Array, word: Array) -> Any:
    """A loop of a fixed number of passes."""
    zero = jnp.zeros_like(number)
    return jax.lax.fori_loop(0, 5, lambda time, total: total + number * time, zero)


def branching(number: Array, word: Array) -> Any:
    """A branch that few boards need, with a loop inside, and with some constant results."""
    is_rare = number > 90

    def rare() -> tuple[Array, Array]:
        count, _ = counting(number, word)
        return jnp.where(is_rare, count, -1), jnp.full_like(word, 3)

    return where_some(is_rare, rare, (jnp.full_like(number, -1), jnp.full_like(word, 3)))


def nesting(number: Array, word: Array) -> Any:
    """A branch and a jitted function inside a loop."""

    @jax.jit
    def halved(value: Array) -> Array:
        return jnp.where(value < 8, np.uint32(0), value >> np.uint32(1))

    def once(loop: tuple[Array, Array]) -> tuple[Array, Array]:
        total, value = loop
        added = where_some(value > 100, lambda: summing(number, word), jnp.zeros_like(number))
        return total + jnp.where(value > 100, added, 1) * (value > 0), halved(value)

    return while_some(lambda loop: loop[1] > 0, once, (jnp.zeros_like(number), word >> 20))


RULES = choosing, counting, flagging, summing, branching, nesting
for_every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


def words(boards: int) -> tuple[Array, Array]:
    """A number and a word of each board."""
    random = np.random.default_rng(boards)
    numbers = random.integers(-100, 100, boards, np.int32)
    return jnp.asarray(numbers), jnp.asarray(random.integers(1 << 32, size=boards, dtype=np.uint32))


def as_kernel(rule: Callable[..., Any], *given: Array) -> Any:
    def stored(inputs: Any, outputs: Any) -> None:
        results = blocks.for_this_platform(rule)(*inputs)
        blocks.store(jax.tree.leaves(outputs), jax.tree.leaves(results))

    return blocks.run(stored, given, jax.eval_shape(rule, *given), "gpu")


@for_every_rule
def test_a_kernel_has_the_results_of_its_rule(rule: Callable[..., Any]) -> None:
    given = words(BOARDS)
    found = jax.jit(interpreted(lambda *given: as_kernel(rule, *given)))(*given)
    jax.tree.map(np.testing.assert_array_equal, found, rule(*given))


@for_every_rule
def test_selected_and_carried_values_are_spread_over_threads_and_mosaic_accepts_them(
    rule: Callable[..., Any],
) -> None:
    kernel = jax.jit(lambda *given: as_kernel(rule, *given)).trace(*words(BOARDS))
    assert list(not_spread(kernel.jaxpr.jaxpr)) == []
    text = kernel.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("custom_call @mosaic_gpu") == 1


def test_nothing_is_spread_outside_of_kernels_for_gpus() -> None:
    with tracing.inside_of_kernel("tpu"):
        assert blocks.for_this_platform(nesting) is nesting
    assert blocks.for_this_platform(nesting) is nesting


def test_the_game_does_not_need_mosaic_unless_it_makes_kernels_for_gpus() -> None:
    code = "import sys; sys.modules['jax.experimental.pallas.mosaic_gpu'] = None; "
    subprocess.run([sys.executable, "-c", f"{code}import hackmatrix.game.kernels"], check=True)


def test_kernels_for_gpus_import_mosaic_even_if_nothing_is_traced() -> None:
    """XLA ends the process if it loads a compiled program of theirs without Mosaic's settings."""
    code = (
        "import sys; from hackmatrix.game.kernels import Kernels; Kernels('cpu'); "
        "assert 'jax.experimental.mosaic.gpu' not in sys.modules; Kernels('gpu'); "
        "assert 'jax.experimental.mosaic.gpu' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("boards", [1, THREADS - 1, THREADS, THREADS + 1, BOARDS])
def test_a_kernel_takes_and_returns_flags_numbers_and_words_of_any_number_of_boards(
    boards: int,
) -> None:
    number, word = words(boards)
    flag, several = number > 0, jnp.stack([word + np.uint32(each) for each in range(3)])

    def rule(inputs: Any, outputs: Any) -> None:
        flag, (first, second, third), number = inputs
        assert (flag.dtype, number.dtype, third.dtype) == (bool, jnp.int32, jnp.uint32)
        outputs["flag"][...] = ~flag
        outputs["five"][4] = third

        def store(place: Array, _: None) -> None:
            outputs["five"][place] = first + place.astype(jnp.uint32)

        jax.lax.fori_loop(0, 4, store, None)
        blocks.store([outputs["two"], outputs["number"]], [(second, first), -number])

    def of_boards(kind: Any, *words: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*words, boards), kind)

    outputs = {
        "number": of_boards(jnp.int32), "five": of_boards(jnp.uint32, 5), "flag": of_boards(bool),
        "two": of_boards(jnp.uint32, 2),
    }  # fmt: skip
    run = jax.jit(interpreted(lambda *given: warpgroups.run(rule, given, outputs)))
    found = run(flag, several, number)
    five = jnp.stack([*(word + np.uint32(each) for each in range(4)), several[2]])
    expected = {"number": -number, "five": five, "flag": ~flag, "two": several[1::-1]}
    assert jax.eval_shape(lambda: found) == outputs
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_results_of_a_kernel_may_differ_between_devices() -> None:
    """Otherwise shard_map, which checks this, would refuse them."""
    split = PartitionSpec("boards")
    jax.eval_shape(
        jax.shard_map(
            lambda *given: as_kernel(nesting, *given),
            mesh=Mesh(np.array(jax.devices()[:2]), ("boards",)),
            in_specs=split,
            out_specs=split,
        ),
        *words(2 * THREADS),
    )
