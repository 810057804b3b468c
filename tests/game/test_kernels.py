"""A step as one kernel equals the program, bit for bit, and the program for GPUs equals the one for
CPUs. Kernels are interpreted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import Case
from gpu_kernels import interpreted, not_spread
from steps import Programs
from subject import JaxGame

from hackmatrix import game
from hackmatrix.bench.environment import choose
from hackmatrix.game import observation, tracing
from hackmatrix.game.blocks import LANES
from hackmatrix.game.kernels import Kernels
from hackmatrix.game.valid import valid_word
from tests.compiled_game import keys, rows

BOARDS = 9 * LANES - 100  # two blocks, of which the second is not full
KERNELS, FOR_GPUS = Kernels("cpu"), Kernels("gpu")
Step = Callable[[Any, Any, Any], Any]


def by_program(keys: Any, states: game.State, actions: Any) -> Any:
    after, outcome = game.step_batch_and_restart(keys, states, actions)
    return after, outcome, (observation.encode(after), valid_word(after))


def by_program_for_gpus(*given: Any) -> Any:
    with tracing.program_for("gpu"):
        return by_program(*given)


def by_program_for_gpus_outlined(*given: Any) -> Any:
    """The same with outlined functions, which compiles faster on a CPU."""
    with patch("hackmatrix.game.outline.on_cpu", return_value=True):
        return by_program_for_gpus(*given)


VARIANTS = {
    "kernel": KERNELS.step_batch_and_restart,
    "kernel for GPUs": interpreted(FOR_GPUS.step_batch_and_restart),
    "program for GPUs": by_program_for_gpus_outlined,
}


@pytest.fixture(scope="module", params=VARIANTS)
def steps(request: pytest.FixtureRequest, programs: Programs) -> tuple[Step, Step]:
    """A step by the program for CPUs, and a variant of it."""
    encode, valid = jax.jit(observation.encode), jax.jit(valid_word)

    def program(*given: Any) -> Any:
        after, outcome = programs.step_and_restart(*given)
        return after, outcome, (encode(after), valid(after))

    return program, jax.jit(VARIANTS[request.param])


def expect_equal(steps: tuple[Step, Step], *given: Any) -> Any:
    """Checks that both steps have the same result, and returns it."""
    expected, found = (step(*given) for step in steps)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    return expected


def test_a_variant_equals_the_program_on_all_recorded_boards(
    steps: tuple[Step, Step], cases: list[Case], subject: JaxGame
) -> None:
    boards = subject.load([case["state"] for case in cases])
    actions = np.array([case["action"] for case in cases], np.int32)
    for start in range(0, len(cases), BOARDS):
        chosen = np.arange(start, start + BOARDS) % len(cases)
        expect_equal(steps, keys(start, BOARDS), rows(boards, chosen), actions[chosen])


def test_a_variant_equals_the_program_in_random_games_with_new_stages_and_restarts(
    steps: tuple[Step, Step], programs: Programs
) -> None:
    states = programs.reset(keys(0, BOARDS))
    rich = np.arange(BOARDS, dtype=np.int32) % 2  # half of the boards can soon pay for any program
    valid = jax.jit(valid_word)
    ended = 0
    for number in range(1, 26):
        player = states.player
        states = states.replace(
            player=player.replace(credits=player.credits + rich, energy=player.energy + rich),
            owned=states.owned | np.uint32(0x7FFFFF) * rich.astype(np.uint32),
        )
        drawn = keys(number, BOARDS)
        actions = np.asarray(choose(jnp.asarray(drawn), valid(states)))
        states, outcome, _ = expect_equal(steps, drawn, states, actions)
        ended += int(outcome.done.sum())
    assert ended > BOARDS / 10


@pytest.mark.parametrize("look", [KERNELS.look, interpreted(FOR_GPUS.look)], ids=["", "for GPUs"])
def test_a_kernel_observes_boards_as_the_program_does(
    look: Callable[[game.State], Any], programs: Programs
) -> None:
    states = programs.reset(keys(1, BOARDS))
    words, valid = jax.jit(look)(states)
    np.testing.assert_array_equal(words, jax.jit(observation.encode)(states))
    np.testing.assert_array_equal(valid, jax.jit(valid_word)(states))


def test_popcount_is_right_where_kernels_have_no_instruction_for_it() -> None:
    words = np.random.default_rng(0).integers(1 << 32, size=1000, dtype=np.uint32)
    words[:2] = 0, 0xFFFFFFFF
    with tracing.inside_of_kernel("gpu"):
        counted = tracing.popcount(jnp.asarray(words))
    np.testing.assert_array_equal(counted, np.bitwise_count(words))


def shapes(boards: int) -> tuple[Any, game.State, Any]:
    keys = jax.ShapeDtypeStruct((boards, 2), jnp.uint32)
    states = jax.eval_shape(game.reset_batch, keys)
    return keys, states, jax.ShapeDtypeStruct((boards,), jnp.int32)


def test_a_program_for_gpus_outlines_nothing_and_does_not_scatter_every_leaf() -> None:
    step = jax.jit(by_program_for_gpus).trace(*shapes(4096))
    text = step.lower(lowering_platforms=("cuda",)).as_text()
    assert "inlineable" not in text
    assert text.count('"stablehlo.scatter"') == 1  # of a snapshot into a row of its ring buffer
    assert text.count("stablehlo.while") <= 4


def test_a_step_is_one_kernel_for_gpus_with_constants_spread_over_threads() -> None:
    step = jax.jit(FOR_GPUS.step_batch_and_restart).trace(*shapes(4096))
    assert list(not_spread(step.jaxpr.jaxpr)) == []
    text = step.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("custom_call @mosaic_gpu") == 1


def test_a_step_is_one_kernel_for_tpus() -> None:
    """tests/bench/test_preflight.py compiles it, with the training."""
    step = jax.jit(Kernels("tpu").step_batch_and_restart).trace(*shapes(4096))
    text = step.lower(lowering_platforms=("tpu",)).as_text()
    assert text.count("custom_call @tpu_custom_call") == 1
