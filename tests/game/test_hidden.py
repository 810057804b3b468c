"""What the player cannot know is redrawn, and nothing of the true values remains."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from boards import plain
from soundness import faults
from steps import Programs, load

from hackmatrix import game
from hackmatrix.game import history
from hackmatrix.game.hidden import redrawn
from hackmatrix.game.programs import Program
from hackmatrix.game.randomness import as_key
from tests.compiled_game import BATCH, keys

Tree = Any
STEPS = 100
MIGHTY = {"credits": 99, "energy": 99, "data_siphons": 9}


@jax.jit
def _redrawn(states: Tree, number: int) -> Tree:
    each = jax.random.key_data(jax.random.split(jax.random.key(number), BATCH))
    return redrawn(as_key(each), states)


def redraw(states: Tree, number: int) -> Tree:
    """Returns NumPy arrays, from which the tests take boards one at a time."""
    return jax.tree.map(np.asarray, _redrawn(states, number))


undo = jax.jit(history.undo)
observe = jax.jit(jax.vmap(game.observe))
valid_actions = jax.jit(jax.vmap(game.valid_actions))


@pytest.fixture(scope="module")
def boards(programs: Programs) -> Tree:
    """Boards of eventful games in progress. Games that ended were restarted."""
    states = programs.reset(keys(1))
    player = states.player.replace(
        **{name: np.full(BATCH, number, np.int32) for name, number in MIGHTY.items()}
    )
    owned = np.full(BATCH, (1 << 23) - 1, np.uint32)
    states, rng = states.replace(player=player, owned=owned), np.random.default_rng(2)
    for number in range(STEPS):
        scores = np.asarray(valid_actions(states)) * rng.random((BATCH, game.ACTIONS))
        actions = np.argmax(scores, axis=-1).astype(np.int32)
        states, _ = programs.step_and_restart(keys(number), states, actions)
    return states


def row(states: Tree, number: int) -> Tree:
    return jax.tree.map(lambda leaf: leaf[number], states)


def equal_leaves(some: Tree, others: Tree) -> list[bool]:
    pairs = zip(jax.tree.leaves(some), jax.tree.leaves(others), strict=True)
    return [np.array_equal(one, other) for one, other in pairs]


def test_a_redrawn_board_looks_the_same_and_is_sound(boards: Tree) -> None:
    other = redraw(boards, 5)
    assert np.array_equal(observe(other), observe(boards))
    others = [action for action in range(28) if action not in (Program.CRASH, Program.DEBUG)]
    assert np.array_equal(valid_actions(other)[:, others], valid_actions(boards)[:, others])
    assert list(faults(jax.tree.map(np.asarray, other))) == []
    assert not all(equal_leaves(other, boards))


def test_boards_that_look_alike_are_redrawn_alike(boards: Tree) -> None:
    """One key redraws boards that differ only in hidden values to one board, so nothing of the true
    values is left in it.
    """
    assert all(equal_leaves(redraw(redraw(boards, 6), 5), redraw(boards, 5)))


def test_an_enemy_under_another_one_is_redrawn() -> None:
    seen, others = [0, 0, 3, 2, 0, 0, 0, 0], ([1, 0, 3, 3], [2, 0, 3, 1], [3, 0, 3, 2])
    boards = [{**plain(), "enemies": [seen, [*other, 0, 0, 1, 0]]} for other in others]
    drawn = [redraw(load([board]), 5) for board in boards]
    assert all(equal_leaves(drawn[0], drawn[1]) + equal_leaves(drawn[0], drawn[2]))
    enemies = [game.scenario.dump(row(drawn[0], number))["enemies"] for number in range(BATCH)]
    assert all(each[0] == seen and each[1][1:3] == [0, 3] for each in enemies)
    assert {(each[1][0], each[1][3]) for each in enemies} == {(0, 2), (1, 3), (2, 2), (3, 2)}


@pytest.mark.parametrize("credits", [0, 5])
def test_hidden_spawns_of_zero_are_known_only_if_reduc_is_affordable(credits: int) -> None:
    reduced, not_reduced = plain(), plain()
    for board, spawn in (reduced, 0), (not_reduced, 4):
        board["owned"] = [Program.REDUC.number]
        board["player"][3] = credits
        board["cells"][14] = ["QD", 4, spawn, board["cells"][14][-1]]
    drawn = [redraw(load([board]), 5) for board in (reduced, not_reduced)]
    assert all(equal_leaves(*drawn)) == (credits == 0)
    for board, each in zip((reduced, not_reduced), drawn, strict=True):
        assert np.array_equal(valid_actions(each), valid_actions(load([board])))


def test_cryptogs_out_of_sight_are_redrawn_into_different_cells() -> None:
    board = plain()
    board["enemies"] = [[3, 3, column, 2, 0, 0, 0, 0] for column in range(1, 6)]
    for number in range(3):
        drawn = redraw(load([board]), number)
        for each in range(BATCH):
            enemies = game.scenario.dump(row(drawn, each))["enemies"]
            assert len({tuple(enemy[1:3]) for enemy in enemies}) == len(enemies) == 5


def test_snapshots_are_redrawn_and_look_the_same_after_undo(boards: Tree) -> None:
    restored = [undo(redraw(boards, number), np.ones(BATCH, bool)) for number in (5, 6)]
    possible = np.asarray(valid_actions(boards))[:, Program.UNDO]
    assert possible.sum() > 50
    observations = [np.asarray(observe(each))[possible] for each in restored]
    assert np.array_equal(*observations)
    assert not all(equal_leaves(*restored))


def test_hidden_values_have_the_distributions_of_the_rules() -> None:
    board = plain()
    board["cells"][14] = ["QD", 3, 3, board["cells"][14][-1]]
    board["cells"][15] = ["QP", 7, 2, board["cells"][15][-1]]
    board["cells"][16] = ["P", 9, 3, board["cells"][16][-1]]
    board["enemies"] = [[3, 3, 3, 2, 0, 0, 0, 0]]
    drawn = redraw(load([board]), 3)
    seen = [game.scenario.dump(row(drawn, number)) for number in range(BATCH)]
    blocks = [each["cells"][cell] for each in seen for cell in (14, 15)]
    programs = [block[1] for block in blocks if block[0] == "QP"]
    points = [block[1] for block in blocks if block[0] == "QD"]
    assert len(programs) / len(blocks) == pytest.approx(0.5, abs=0.06)
    assert set(programs) == set(range(23)) - {9}
    assert set(points) == set(range(1, 10))
    assert all(block[1] == block[2] for block in blocks if block[0] == "QD")
    kinds = [each["transmissions"][0][3] for each in seen]
    assert np.bincount(kinds) / BATCH == pytest.approx(0.25, abs=0.08)
    places = {tuple(each["enemies"][0][1:3]) for each in seen}
    # not in the player's row or column, nor on a block or a transmission
    assert len(places) == 25 - 3 - 1
    due = [each["next_task"] - each["turn"] for each in seen]
    assert set(due) == set(range(1, 13))
