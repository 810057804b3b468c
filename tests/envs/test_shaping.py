"""The shaped rewards that a learner gets in place of ones that would lead it astray."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import game
from hackmatrix.envs import conformance
from hackmatrix.envs.hackmatrix_env import ACTION_NAMES, HackMatrix
from hackmatrix.envs.protocol import Environment, Step
from hackmatrix.errors import UserError
from hackmatrix.game.programs import Program
from hackmatrix.rl.reward_signal import RewardSignal

FLAGS = {"c": 0, "e": 0, "s": 0, "m": 0}
BOARDS = 8  # as many as the conformance suite plays, to reuse the programs compiled for it
SIGNAL = RewardSignal(gamma=1.0, potential_shaping=True)

_step = jax.jit(HackMatrix().step)


def played(boards: list[game.State], actions: list[list[int]]) -> list[Step]:
    """Plays a batch of repetitions of these boards. `actions` has one a board for each turn."""
    rows = np.arange(BOARDS) % len(boards)
    states: Any = jax.tree.map(lambda *leaves: np.stack(leaves)[rows], *boards)
    taken = []
    for of_turn in actions:
        given = np.array(of_turn, np.int32)[rows]
        states, step = _step(np.zeros((BOARDS, 2), np.uint32), states, given)
        taken.append(jax.tree.map(lambda leaf: np.asarray(leaf)[: len(boards)], step))
    return taken


def board(owned: list[int]) -> game.State:
    """Returns a board with a data siphon two steps from the player, on the way to the exit."""
    cells: list[list[Any]] = [[".", dict(FLAGS)] for _ in range(36)]
    cells[2], cells[5] = ["S", dict(FLAGS)], ["X", dict(FLAGS)]
    return game.scenario.load(
        {
            "player": [0, 0, 3, 5, 6, 0, 1, 0], "stage": 1, "turn": 0, "exit": [0, 5],
            "cells": cells, "enemies": [], "transmissions": [], "owned": owned, "show": 0,
            "calm": 0, "step": 0, "atk_uses": 0, "pending": 0, "interval": 12, "next_task": 12,
            "history_depth": 0, "history": [],
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    """Steps of a player without UNDO and of one with it. Both take the data siphon. Then the first
    walks back and forth, and the second undoes the turn and repeats it.
    """
    left, right = ACTION_NAMES.index("left"), ACTION_NAMES.index("right")
    return played(
        [board(owned=[]), board(owned=[Program.UNDO.number])],
        [
            [right, right],
            [right, right],
            [left, Program.UNDO],
            [left, Program.UNDO],
            [right, right],
        ],
    )


def test_programs_are_gained_by_a_siphon_and_lost_again_by_undo() -> None:
    """Nothing is gained in a step that ends the game, here through an enemy beside the player."""
    safe = game.scenario.dump(board(owned=[Program.UNDO.number, Program.WAIT.number]))
    safe["player"] = [0, 0, 2, 5, 6, 2, 1, 0]
    safe["cells"][1] = ["P", Program.POLY.number, 0, dict(FLAGS)]
    attacked = {**safe, "enemies": [[1, 1, 0, 3, 0, 0, 0, 0]]}
    siphon = ACTION_NAMES.index("siphon")
    # The first UNDO leads back to the end of the siphon's turn, the second to that of WAIT.
    steps = played(
        [game.scenario.load(each) for each in (safe, attacked)],
        [[action] * 2 for action in (Program.WAIT, siphon, Program.UNDO, Program.UNDO)],
    )
    gained = [step.shaping.gained for step in steps if step.shaping is not None]
    ended = [step.terminated for step in steps]
    np.testing.assert_array_equal(np.array(gained)[:, 0], [0, 1, 0, -1])
    np.testing.assert_array_equal(np.array(gained)[:2, 1], [0, 0])
    np.testing.assert_array_equal(np.array(ended)[:2, 1], [False, True])


def learned(steps: list[Step]) -> np.ndarray:
    """Returns the rewards to learn from, f32[steps, 2]."""
    return np.array([SIGNAL.learned(step.reward, step.shaping) for step in steps])


def test_by_the_rules_what_is_undone_and_repeated_pays_again(
    steps: list[Step],
) -> None:
    data_siphons = [step.each_step["reward/data_siphon"] for step in steps]
    np.testing.assert_array_equal(data_siphons, [[0, 0], [1, 1], [0, 0], [0, 0], [0, 1]])


def test_a_learner_gains_nothing_by_what_it_can_undo(steps: list[Step]) -> None:
    penalty, way = -0.01, 0.05
    np.testing.assert_allclose(
        learned(steps),
        [
            [penalty + way, penalty + way],
            [penalty + way + 1, penalty + way],
            [penalty - way, penalty],  # UNDO restores the end of the turn: nothing moves
            [penalty - way, penalty - way],
            [penalty + way, penalty + way],
        ],
        atol=1e-6,
    )


def test_shaping_beside_a_kernel_is_lowered_for_the_platform_of_the_kernel() -> None:
    """For a TPU no call is excluded from inlining, also where a CPU compiles the program."""
    keys = jnp.zeros((2, 2), jnp.uint32)
    states = jax.eval_shape(game.reset_batch, keys)
    after, outcome = jax.eval_shape(game.step_batch, keys, states, jnp.zeros(2, jnp.int32))

    def lowered(platform: str) -> str:
        env = HackMatrix().on(platform)
        seen = jnp.zeros((2, 47), jnp.uint32), jnp.zeros(2, jnp.uint32)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), outcome)
        kernel = lambda keys, states, actions: (states, zeros, seen)  # noqa: E731
        env._kernels = Mock(step_batch_and_restart=kernel)
        step = jax.jit(env.step_and_encode)
        return step.lower(keys, after, jnp.zeros(2, jnp.int32)).as_text()

    assert "inlineable" in lowered("cpu")
    assert "inlineable" not in lowered("tpu")


class Late(HackMatrix):
    name = "mine:Late"

    def reset(self, keys: Any) -> Any:
        return super().reset(keys)


class AlwaysLate(Late):
    def step(self, *given: Any) -> Any:
        return super().step(*given)


def test_a_subclass_that_overrides_reset_must_override_step_too() -> None:
    AlwaysLate().on("cpu")
    with pytest.raises(UserError, match=r"^mine:Late overrides `reset` but not `step`"):
        Late().on("cpu")
    with pytest.raises(conformance.Broken, match=r"^mine:Late overrides `reset`"):
        conformance.check(Late())


def test_older_checkpoints_are_not_sought_for_a_subclass_with_a_reset_of_its_own() -> None:
    assert HackMatrix().on("cpu").older_layouts
    assert AlwaysLate().on("cpu").older_layouts == ()


class Harsh(HackMatrix):
    def step(self, *given: Any) -> Any:
        after, reward = cast(Any, super().step(*given))
        return after, reward - 7

    def encode(self, states: Any) -> Any:
        return f"what Harsh sees {states}"


def test_a_subclass_uses_its_own_step_and_encode_even_if_there_are_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HackMatrix, "_by_kernel", lambda *_: ("after", 1, "what a kernel saw"))
    ours, theirs = (
        cast(Any, kind().on("cpu", kernels=True).step_and_encode) for kind in (HackMatrix, Harsh)
    )
    assert ours(None, None, None) == ("after", 1, "what a kernel saw")
    assert theirs(None, None, None) == ("after", -6, "what Harsh sees after")


def test_without_kernels_step_and_observation_are_computed_as_in_any_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_in_any = Mock(return_value=("after", 1, "what is seen"))
    monkeypatch.setattr(Environment, "step_and_encode", as_in_any)
    given: Any = "keys", "states", "actions"
    for env in (HackMatrix(), HackMatrix().on("cpu")):
        assert cast(Any, env.step_and_encode)(*given) == ("after", 1, "what is seen")
        as_in_any.assert_called_with(*given)
