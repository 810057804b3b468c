"""A step as one kernel does what the program does, bit for bit (here kernels are interpreted), and
the program for GPUs what that for CPUs does.
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
from steps import Programs, keys
from subject import JaxGame, rows

from hackmatrix import game
from hackmatrix.bench.environment import choose
from hackmatrix.game import observation, tracing
from hackmatrix.game.blocks import LANES
from hackmatrix.game.kernels import Kernels
from hackmatrix.game.valid import valid_word

BOARDS = 9 * LANES - 100  # two blocks, of which the second is not full
KERNELS, FOR_GPUS = Kernels("cpu"), Kernels("gpu")
Step = Callable[[Any, Any, Any], Any]


def by_program(keys: Any, states: game.State, actions: Any) -> Any:
    after, outcome = game.step_batch_and_restart(keys, states, actions)
    return after, outcome, (observation.encode(after), valid_word(after))


def by_program_for_gpus(*given: Any) -> Any:
    with tracing.program_for("gpu"):
        return by_program(*given)


def by_program_for_gpus_kept_apart(*given: Any) -> Any:
    """The same, but with functions kept apart from their callers, which a CPU compiles sooner."""
    with patch("hackmatrix.game.outline.on_cpu", return_value=True):
        return by_program_for_gpus(*given)


OTHERWISE = {
    "kernel": KERNELS.step_batch_and_restart,
    "kernel for GPUs": interpreted(FOR_GPUS.step_batch_and_restart),
    "program for GPUs": by_program_for_gpus_kept_apart,
}


@pytest.fixture(scope="module", params=OTHERWISE)
def steps(request: pytest.FixtureRequest, programs: Programs) -> tuple[Step, Step]:
    """By the program for CPUs, and otherwise."""
    encode, valid = jax.jit(observation.encode), jax.jit(valid_word)

    def program(*given: Any) -> Any:
        after, outcome = programs.step_and_restart(*given)
        return after, outcome, (encode(after), valid(after))

    return program, jax.jit(OTHERWISE[request.param])


def expect_the_same(steps: tuple[Step, Step], *given: Any) -> Any:
    """What both make of it."""
    expected, found = (step(*given) for step in steps)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    return expected


def test_on_all_recorded_boards_it_is_the_program(
    steps: tuple[Step, Step], cases: list[Case], subject: JaxGame
) -> None:
    boards = subject.load([case["state"] for case in cases])
    actions = np.array([case["action"] for case in cases], np.int32)
    for start in range(0, len(cases), BOARDS):
        chosen = np.arange(start, start + BOARDS) % len(cases)
        expect_the_same(steps, keys(start, BOARDS), rows(boards, chosen), actions[chosen])


def test_in_games_of_any_valid_actions_with_new_stages_and_new_games_too(
    steps: tuple[Step, Step], programs: Programs
) -> None:
    states = programs.reset(keys(0, BOARDS))
    rich = np.arange(BOARDS, dtype=np.int32) % 2  # these can soon pay for any program
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
        states, outcome, _ = expect_the_same(steps, drawn, states, actions)
        ended += int(outcome.done.sum())
    assert ended > BOARDS / 10


@pytest.mark.parametrize("look", [KERNELS.look, interpreted(FOR_GPUS.look)], ids=["", "for GPUs"])
def test_what_is_seen_of_boards_is_what_the_program_sees(
    look: Callable[[game.State], Any], programs: Programs
) -> None:
    states = programs.reset(keys(1, BOARDS))
    words, valid = jax.jit(look)(states)
    np.testing.assert_array_equal(words, jax.jit(observation.encode)(states))
    np.testing.assert_array_equal(valid, jax.jit(valid_word)(states))


def test_bits_are_counted_where_there_is_no_instruction_for_it() -> None:
    words = np.random.default_rng(0).integers(1 << 32, size=1000, dtype=np.uint32)
    words[:2] = 0, 0xFFFFFFFF
    with tracing.inside_of_kernel("gpu"):
        counted = tracing.popcount(jnp.asarray(words))
    np.testing.assert_array_equal(counted, np.bitwise_count(words))


def shapes(boards: int) -> tuple[Any, game.State, Any]:
    keys = jax.ShapeDtypeStruct((boards, 2), jnp.uint32)
    states = jax.eval_shape(game.reset_batch, keys)
    return keys, states, jax.ShapeDtypeStruct((boards,), jnp.int32)


def test_a_program_for_gpus_keeps_nothing_apart_and_puts_nothing_back_leaf_by_leaf() -> None:
    step = jax.jit(by_program_for_gpus).trace(*shapes(4096))
    text = step.lower(lowering_platforms=("cuda",)).as_text()
    assert "inlineable" not in text
    assert text.count('"stablehlo.scatter"') == 1  # the row of a ring that a snapshot is put into
    assert text.count("stablehlo.while") <= 4


def test_mosaic_is_given_one_kernel_for_gpus_with_its_constants_spread_over_threads() -> None:
    step = jax.jit(FOR_GPUS.step_batch_and_restart).trace(*shapes(4096))
    assert list(not_spread(step.jaxpr.jaxpr)) == []
    text = step.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("custom_call @mosaic_gpu") == 1


def test_a_step_is_one_kernel_for_tpus() -> None:
    """That it compiles for them is shown with the training (tests/bench/test_preflight.py)."""
    step = jax.jit(Kernels("tpu").step_batch_and_restart).trace(*shapes(4096))
    text = step.lower(lowering_platforms=("tpu",)).as_text()
    assert text.count("custom_call @tpu_custom_call") == 1
