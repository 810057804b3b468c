"""Turned boards: those that differ only in their orientation look the same to a network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.envs import conformance, make
from hackmatrix.envs.hackmatrix_env import HackMatrix
from hackmatrix.envs.protocol import Parts, with_attribute
from hackmatrix.game.features import EXIT_SEEN
from hackmatrix.networks.turning import DIRECTIONS, Turning, turned_towards
from tests.envs import reference_games
from tests.networks.grid import SIZE, GridWalk

LANDMARK = 1  # of three features
ACTIONS = "wait", "right", "up", "left", "down", "shoot"
TURNING = Turning(LANDMARK, (2, 4, 3, 1))
STEPS = {"up": (1, 0), "down": (-1, 0), "left": (0, -1), "right": (0, 1)}
SQUARE, OBLONG = (6, 6), (5, 4)


def boards(rows: int, columns: int) -> dict[str, np.ndarray]:
    """Returns a board for each two places of player and landmark; all cells of a board differ."""
    places = np.array(list(itertools.product(range(rows), range(columns), repeat=2)))
    places = places[(places[:, :2] != places[:, 2:]).any(1)]
    count = len(places)
    cells = np.zeros((count, rows, columns, 3), np.float32)
    cells[..., 0] = 1 + np.arange(rows * columns).reshape(rows, columns)
    cells[np.arange(count), places[:, 2], places[:, 3], LANDMARK] = 1
    sizes = np.array([rows - 1, columns - 1])
    player = np.concatenate([places[:, :2] / sizes, np.full((count, 1), 0.5)], axis=1)
    return {"player": player.astype(np.float32), "cells": cells}


def landmark(parts: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the landmark's row and column relative to the player's, i64[B, 2]."""
    marked = parts["cells"][..., LANDMARK]
    places = np.stack(np.unravel_index(marked.reshape(len(marked), -1).argmax(1), marked.shape[1:]))
    return places.T - place(parts)


def place(parts: dict[str, np.ndarray]) -> np.ndarray:
    rows, columns = parts["cells"].shape[1:3]
    return np.rint(parts["player"][:, :2] * [rows - 1, columns - 1]).astype(int)


def images(parts: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Yields square boards in their eight orientations."""
    cells, player = parts["cells"], parts["player"]
    for swapped, upside_down, mirrored in itertools.product((False, True), repeat=3):
        at, seen = player[:, :2].copy(), cells
        if swapped:
            at, seen = at[:, ::-1].copy(), seen.transpose(0, 2, 1, 3)
        if upside_down:
            at[:, 0], seen = 1 - at[:, 0], seen[:, ::-1]
        if mirrored:
            at[:, 1], seen = 1 - at[:, 1], seen[:, :, ::-1]
        yield {"player": np.concatenate([at, player[:, 2:]], axis=1), "cells": seen}


@pytest.mark.parametrize("size", [SQUARE, OBLONG])
def test_the_landmark_of_a_turned_board_lies_up_and_to_the_right(size: tuple[int, int]) -> None:
    up, right = landmark(TURNING.turned(boards(*size))[0]).T
    assert min(up.min(), right.min()) == 0
    if size == SQUARE:
        assert (up >= right).all()


def test_boards_that_differ_only_in_their_orientation_look_the_same() -> None:
    """Except where the landmark lies in the player's row or column, or on a diagonal: such a board
    can be turned two ways.
    """
    parts = boards(*SQUARE)
    up, right = np.abs(landmark(parts)).T
    has_one_turn = (up != right) & (up > 0) & (right > 0)
    parts = {name: part[has_one_turn] for name, part in parts.items()}
    expected, _ = TURNING.turned(parts)
    turns = []
    for image in images(parts):
        turned, turn = TURNING.turned(image)
        np.testing.assert_array_equal(turned["cells"], expected["cells"])
        np.testing.assert_array_equal(place(turned), place(expected))
        np.testing.assert_array_equal(turned["player"][:, 2:], parts["player"][:, 2:])
        np.testing.assert_array_equal(turned["turned"], np.stack(turn, axis=-1))
        turns.append(turned["turned"])
    assert len(np.unique(np.stack(turns)[:, 0], axis=0)) == len(turns)


@pytest.mark.parametrize(
    ("place", "turn"),
    [
        ((2, 4), (False, False, True)),
        ((4, 2), (False, False, False)),
        ((4, 4), (False, False, False)),
        ((0, 2), (True, False, False)),
        ((2, 0), (False, True, True)),
        ((0, 0), (True, True, False)),
    ],
)
def test_a_board_that_can_be_turned_two_ways_is_turned_as_trained_policies_expect(
    place: tuple[int, int], turn: tuple[bool, bool, bool]
) -> None:
    cells = np.zeros((*SQUARE, 3), np.float32)
    cells[(*place, LANDMARK)] = 1
    player = np.array([2 / 5, 2 / 5, 0.5], np.float32)
    assert tuple(TURNING.turned({"player": player, "cells": cells})[1]) == turn


@pytest.mark.parametrize("size", [SQUARE, OBLONG])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_step_on_the_turned_board_leads_to_the_same_cell_as_on_the_board(
    size: tuple[int, int], direction: str
) -> None:
    parts = boards(*size)
    turned, turn = TURNING.turned(parts)
    chosen = np.tile(np.eye(len(ACTIONS))[ACTIONS.index(direction)], (len(parts["cells"]), 1))
    back = TURNING.turned_back(chosen, turn).argmax(1)
    steps = np.array([STEPS.get(name, (0, 0)) for name in ACTIONS])[back]
    np.testing.assert_array_equal(
        _cell(turned, np.tile(STEPS[direction], (len(back), 1))), _cell(parts, steps)
    )


def _cell(parts: dict[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
    """Returns the first feature of the cells that these steps lead to, 0 beyond the board."""
    wider = np.pad(parts["cells"][..., 0], [(0, 0), (1, 1), (1, 1)])
    row, column = (place(parts) + steps + 1).T
    return np.asarray(wider[np.arange(len(row)), row, column])


def test_turning_back_permutes_the_logits_of_directions_alone() -> None:
    parts = boards(*SQUARE)
    _, turn = TURNING.turned(parts)
    logits = np.random.default_rng(0).normal(size=(len(parts["cells"]), len(ACTIONS)))
    back = TURNING.turned_back(logits, turn)
    others = [ACTIONS.index(name) for name in ("wait", "shoot")]
    np.testing.assert_array_equal(back[:, others], logits[:, others])
    np.testing.assert_array_equal(np.sort(back, axis=1), np.sort(logits, axis=1))


def test_jax_turns_boards_as_numpy_does() -> None:
    parts = boards(*SQUARE)
    logits = np.random.default_rng(0).normal(size=(len(parts["cells"]), 6)).astype(np.float32)
    expected, turn = TURNING.turned(parts)
    found, again = jax.jit(TURNING.turned)(parts)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    np.testing.assert_array_equal(
        jax.jit(TURNING.turned_back)(logits, again), TURNING.turned_back(logits, turn)
    )


def test_directions_are_found_by_the_names_of_actions() -> None:
    assert Turning.of(LANDMARK, ACTIONS) == TURNING
    assert Turning.of(None, ACTIONS) is None
    assert Turning.of(LANDMARK, ("push left", "push right")) is None


def test_the_game_is_turned_towards_its_exit() -> None:
    env = make("hackmatrix")
    keys = np.random.default_rng(0).integers(1 << 32, size=(64, 2), dtype=np.uint32)
    states = reference_games.new_games(keys)
    parts = jax.tree.map(np.asarray, env.decode(env.encode(states))[0])
    turning = Turning.of(env.landmark, env.action_names)
    assert turning is not None
    exits = parts["cells"].reshape(64, -1, parts["cells"].shape[-1])[..., turning.landmark]
    np.testing.assert_array_equal(exits.sum(1), 1)
    np.testing.assert_array_equal(exits.argmax(1), np.asarray(states.exit_cell))
    turned, _ = turning.turned(parts)
    # A new game begins in one corner, and its exit is in another.
    np.testing.assert_array_equal(turned["cells"][:, 5, :, turning.landmark].sum(1), 1)


@pytest.mark.parametrize("landmark", [EXIT_SEEN, 10, -3], ids=["exit", "points", "data siphon"])
def test_the_game_turns_its_boards_as_a_network_would(landmark: int) -> None:
    """On boards whose cells are shuffled, with the player anywhere, and on one without a mark."""
    env, rng = with_attribute(HackMatrix(), "landmark", landmark), np.random.default_rng(0)
    keys = rng.integers(1 << 32, size=(64, 2), dtype=np.uint32)
    seen = env.encode(reference_games.new_games(keys))
    words = np.array(seen.words)
    words[:, :36] = rng.permuted(words[:, :36], axis=1)
    words[:, 36:38] = rng.integers(6, size=(64, 2))
    words[0, :36] = 0
    seen = seen.replace(words=jax.numpy.asarray(words))
    parts, mask = env.decode(seen)
    turning = Turning.of(env.landmark, env.action_names)
    assert turning is not None
    expected, turn = turning.turned(parts)
    turned, same_mask = env.turned_by(turned_towards).decode(seen)
    assert len(np.unique(turned["turned"], axis=0)) == 8  # all turns there are
    jax.tree.map(np.testing.assert_array_equal, (turned, same_mask), (expected, mask))
    jax.tree.map(np.testing.assert_array_equal, turning.turned(turned), (expected, turn))


def test_a_game_with_an_observation_of_its_own_leaves_turning_to_the_network() -> None:
    class Brighter(HackMatrix):
        def decode(self, seen: Any) -> tuple[Parts, jax.Array]:
            parts, mask = super().decode(seen)
            return {**parts, "cells": parts["cells"] * 2}, mask

    env = Brighter()
    assert env.turned_by(turned_towards) is env


class Shifted(GridWalk):
    """Its last row and column are at (SIZE - 1) / SIZE, not at 1."""

    def decode(self, seen: Any) -> tuple[Parts, jax.Array]:
        parts, mask = super().decode(seen)
        return {**parts, "player": parts["player"] * (SIZE - 1) / SIZE}, mask


def test_a_player_that_would_be_found_in_another_cell_is_reported() -> None:
    conformance.check(GridWalk(), steps=20)
    with pytest.raises(conformance.Broken, match=r"1 in the last, as env\.landmark is set"):
        conformance.check(Shifted(), steps=20)
