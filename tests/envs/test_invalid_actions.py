"""What invalid actions lead to, as the client of an environment chooses."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from hackmatrix import game
from hackmatrix.envs.gymnasium_env import HackMatrixEnv
from hackmatrix.envs.gymnasium_vector import HackMatrixVectorEnv
from hackmatrix.envs.gymnax_env import HackMatrixGymnax, HackMatrixGymnax0
from hackmatrix.envs.hosted import HostedGames, Turn
from hackmatrix.envs.invalid_actions import CHOICES, COST_PART, INVALID_COST, PURPOSE
from hackmatrix.game.randomness import Purpose

GAMES = 1  # as in a single environment, to reuse the programs compiled for it
DRAWS = 400
VALID = 3  # the number of valid actions on the board on which actions are drawn


def new_games(choice: str) -> tuple[HostedGames, Turn]:
    games = HostedGames(GAMES, choice)
    for number in range(GAMES):
        games.seed(number, np.random.default_rng(number))
    return games, games.new_games()


def play(games: HostedGames, turn: Turn, turns: int) -> Turn:
    """Plays random valid actions for some turns, and a new game where one is over."""
    rng = np.random.default_rng(0)
    for _ in range(turns):
        valid = (rng.random(turn.mask.shape) * turn.mask).argmax(-1)
        turn = games.play(valid, np.asarray(turn.outcome.done))
    return turn


def same(tree: Any, other: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, tree, other)))


def boxed_in() -> game.State:
    """Returns a board on which no action is valid: blocks on both sides of the player's corner."""
    blank = {"c": 0, "e": 0, "s": 0, "m": 0}
    cells: list[Any] = [[".", blank] for _ in range(36)]
    cells[1] = cells[6] = ["D", 1, 1, {**blank, "s": 1}]
    return game.scenario.load({
        "player": [0, 0, 3, 0, 0, 0, 1, 0], "stage": 1, "turn": 0, "exit": [5, 5],
        "cells": cells, "enemies": [], "transmissions": [], "owned": [], "show": 0, "calm": 0,
        "step": 0, "atk_uses": 0, "pending": 0, "interval": 12, "next_task": 12,
    })  # fmt: skip


@pytest.mark.parametrize("choice", ["cost", "redraw"])
def test_valid_actions_have_the_same_effect_whatever_the_choice(choice: str) -> None:
    (one, turn), (other, again) = new_games("end"), new_games(choice)
    for _ in range(8):
        turn, again = play(one, turn, 8), play(other, again, 8)
        assert same((turn.observation, turn.mask), (again.observation, again.mask))
        for name in ("reward", "done", "invalid", "stage_completed", "won", "died"):
            assert same(getattr(turn.outcome, name), getattr(again.outcome, name))


@pytest.mark.parametrize("turns", [0, 20])
def test_an_invalid_action_may_cost_a_little_and_change_nothing(turns: int) -> None:
    games, turn = new_games("cost")
    turn = play(games, turn, turns)
    for number in (int(turn.mask[0].argmin()), game.ACTIONS, -1):
        before = jax.tree.map(np.asarray, games.states)
        after = games.play(np.full(GAMES, number))
        assert same(before, games.states)
        assert same((after.observation, after.mask), (turn.observation, turn.mask))
        assert after.outcome.invalid.all()
        assert not after.outcome.done.any()
        np.testing.assert_array_equal(after.outcome.reward, np.float32(-INVALID_COST))
        parts = after.outcome.parts
        np.testing.assert_array_equal(parts[COST_PART], after.outcome.reward)
        assert not any(part.any() for name, part in parts.items() if name != COST_PART)


def test_an_invalid_action_may_be_replaced_by_a_valid_one_drawn_uniformly() -> None:
    """The result is the same as if that action had been taken."""
    games, turn = new_games("redraw")
    while turn.mask.sum() < VALID:
        turn = play(games, turn, 1)
    start, mask = games.board(0), turn.mask[0]
    keys = np.random.default_rng(1).integers(1 << 32, size=(DRAWS, 2), dtype=np.uint32)

    def played(action: int, key: np.ndarray) -> tuple[Turn, list[bytes]]:
        """Plays an action from the same board. Also returns the next board, leaf by leaf."""
        games.put(0, start)
        games.draw_from(0, key, 0)
        turn = games.play(np.array([action]))
        return turn, [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(games.states)]

    counted = dict.fromkeys(np.flatnonzero(mask).tolist(), 0)
    for key in keys:
        after, state = played(int(mask.argmin()), key)
        assert after.outcome.invalid.all()
        assert not after.outcome.done.any()
        leading_there = [each for each in counted if played(each, key)[1] == state]
        assert len(leading_there) == 1
        counted[leading_there[0]] += 1
    assert len(counted) == VALID
    deviation = np.sqrt(DRAWS * (VALID - 1)) / VALID
    assert max(abs(count - DRAWS / VALID) for count in counted.values()) < 3 * deviation


def test_the_draw_of_an_action_is_independent_of_the_draws_of_the_game() -> None:
    assert PURPOSE not in [*Purpose]


@pytest.mark.parametrize("choice", CHOICES)
def test_where_no_action_is_valid_the_game_ends_whatever_the_choice(choice: str) -> None:
    games, _ = new_games(choice)
    for number in range(GAMES):
        games.put(number, boxed_in())
    after = games.play(np.zeros(GAMES, int))
    assert after.outcome.done.all()
    assert after.outcome.invalid.all()
    assert not after.outcome.reward.any()


@pytest.mark.parametrize(
    "make", [HackMatrixEnv, HackMatrixVectorEnv, HackMatrixGymnax, HackMatrixGymnax0, HostedGames]
)
def test_an_unknown_choice_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="invalid='ignore' must be one of end, cost, redraw"):
        make(**({"boards": 1} if make is HostedGames else {}), invalid="ignore")


def test_gymnasium_makes_environments_with_a_choice() -> None:
    env: Any = gymnasium.make("HackMatrix-v0", invalid="cost", max_episode_steps=5)
    env.reset(seed=0)
    invalid = int(env.unwrapped.action_masks().argmin())
    steps = [env.step(invalid) for _ in range(5)]
    assert all(step[1] == np.float32(-INVALID_COST) for step in steps)
    assert [step[2:4] for step in steps] == [(False, False)] * 4 + [(False, True)]
    games: Any = gymnasium.make_vec("HackMatrix-v0", num_envs=GAMES, invalid="redraw")
    games.reset(seed=0)
    _, rewards, terminated, _, _ = games.step(games.action_masks().argmin(-1))
    assert rewards.all()
    assert not terminated.any()
