"""States saved in an older layout are upgraded, and play continues as if nothing had changed.

`data/older_states.npz` was made with the last revision of that layout (2b050d8): 16 boards after 26
steps of random play from `jax.random.key(5)`. Three quarters of them began with all programs, 120
credits, 120 energy and 6 data siphons. The file holds every array of the states under its path and
what `scenario.dump` made of them. It also holds the keys, actions, rewards and ends of 12 further
steps of `step_batch_and_restart`, in which UNDO was often chosen, and the dumps after these.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from soundness import faults
from steps import Programs

from hackmatrix import game
from hackmatrix.game import history
from hackmatrix.game.older import OlderState, deepened, older_layout, shallow_layout, upgraded
from hackmatrix.game.state import HISTORY_DEPTH
from tests.compiled_game import BATCH, rows

Tree = Any
BOARDS = 16
UNDO = 14


@pytest.fixture(scope="module")
def saved() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / "data" / "older_states.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def states(saved: dict[str, np.ndarray]) -> game.State:
    """The saved states, upgraded."""
    return jax.tree.map(np.asarray, jax.jit(upgraded)(restored(saved)))


def layout(boards: int) -> OlderState:
    keys = jax.ShapeDtypeStruct((boards, 2), np.uint32)
    return older_layout(jax.eval_shape(game.reset_batch, keys))


def spec(leaf: Any) -> tuple[Any, Any]:
    return leaf.shape, leaf.dtype


def path_name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def restored(saved: dict[str, np.ndarray]) -> OlderState:
    return jax.tree_util.tree_map_with_path(
        lambda path, _: saved[f"state/{path_name(path)}"], layout(BOARDS)
    )


def dumped(states: Tree) -> list[Any]:
    boards = [game.scenario.dump(rows(states, number)) for number in range(BOARDS)]
    return json.loads(json.dumps(boards))


def test_the_older_layout_matches_the_saved_states(saved: dict[str, np.ndarray]) -> None:
    leaves, _ = jax.tree_util.tree_flatten_with_path(layout(BOARDS))
    expected = {f"state/{path_name(path)}": (leaf.shape, leaf.dtype) for path, leaf in leaves}
    found = {
        name: (array.shape, array.dtype)
        for name, array in saved.items()
        if name.startswith("state/")
    }
    assert found == expected


def test_the_older_layout_has_the_sharding_of_the_states() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("boards",))
    sharding = NamedSharding(mesh, PartitionSpec("boards"))
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        jax.eval_shape(game.reset_batch, jax.ShapeDtypeStruct((BOARDS, 2), np.uint32)),
    )
    assert {leaf.sharding for leaf in jax.tree.leaves(older_layout(shapes))} == {sharding}


def test_a_history_with_more_places_has_the_same_snapshots_and_drops_the_oldest_later() -> None:
    pushed = np.array([0, 2, 4, 7])
    shallow = history.empty(4, jnp.zeros(4))
    for number in range(7):
        snapshot = np.full((history.WORDS, 4), number, np.uint32)
        shallow = shallow.pushed(snapshot, jnp.asarray(number < pushed))
    deep = shallow.with_places(HISTORY_DEPTH)
    np.testing.assert_array_equal(deep.depth, [0, 2, 4, 4])
    fifth = np.full((history.WORDS, 4), 9, np.uint32)
    deep = deep.pushed(fifth, jnp.ones(4, bool))
    for taken in range(5):
        np.testing.assert_array_equal(deep.depth, np.maximum(np.array([1, 3, 5, 5]) - taken, 0))
        filled = np.asarray(deep.depth) > 0
        expected = 9 if taken == 0 else pushed - taken
        np.testing.assert_array_equal(deep.newest[0][filled], np.broadcast_to(expected, 4)[filled])
        deep = deep.taken(jnp.asarray(filled))


def test_the_shallow_layout_is_that_of_boards_with_four_snapshots() -> None:
    keys = jax.ShapeDtypeStruct((BOARDS, 2), np.uint32)
    former = jax.eval_shape(partial(game.reset_batch, history_depth=4), keys)
    today = jax.eval_shape(game.reset_batch, keys)
    assert jax.tree.map(spec, shallow_layout(today)) == jax.tree.map(spec, former)
    assert jax.tree.map(spec, jax.eval_shape(deepened, former)) == jax.tree.map(spec, today)


def test_an_upgraded_state_is_the_same_scenario_with_the_same_history(
    saved: dict[str, np.ndarray], states: game.State
) -> None:
    boards = json.loads(str(saved["dumped"]))
    assert dumped(states) == boards
    assert not list(faults(states))
    amounts = [cell[-1] for board in boards for cell in board["cells"]]
    snapshots = [snapshot for board in boards for snapshot in board["history"]]
    assert all(sum(amount[flag] for amount in amounts) > 50 for flag in "ce")
    assert {snapshot["show"] + 2 * snapshot["calm"] for snapshot in snapshots} == {0, 1, 2, 3}


def test_upgraded_states_have_the_current_shapes_and_dtypes(states: game.State) -> None:
    today = jax.eval_shape(game.reset_batch, jax.ShapeDtypeStruct((BOARDS, 2), np.uint32))
    jax.tree.map(
        lambda new, leaf: np.testing.assert_equal((leaf.shape, leaf.dtype), (new.shape, new.dtype)),
        today,
        states,
    )


@pytest.mark.parametrize("shape", [(), (4, 4)])
def test_states_of_any_batch_shape_are_upgraded(
    saved: dict[str, np.ndarray], states: game.State, shape: tuple[int, ...]
) -> None:
    def reshaped(tree: Tree) -> Tree:
        number = int(np.prod(shape))
        return jax.tree.map(lambda leaf: leaf[:number].reshape((*shape, *leaf.shape[1:])), tree)

    result = upgraded(reshaped(restored(saved)))
    jax.tree.map(np.testing.assert_array_equal, result, reshaped(states))


def test_play_continues_as_it_did_in_the_older_layout(
    saved: dict[str, np.ndarray], states: game.State, programs: Programs
) -> None:
    chosen = np.resize(np.arange(BOARDS), BATCH)
    boards = rows(states, chosen)
    actions = saved["actions"]
    assert np.sum(actions == UNDO) > 30
    for number, data in enumerate(saved["keys"]):
        keys = data[chosen]
        boards, outcome = programs.step_and_restart(keys, boards, actions[number][chosen])
        np.testing.assert_array_equal(outcome.reward[:BOARDS], saved["rewards"][number])
        np.testing.assert_array_equal(outcome.done[:BOARDS], saved["done"][number])
    for now, then in zip(dumped(boards), json.loads(str(saved["dumped_after"])), strict=True):
        extra = now["history_depth"] - then["history_depth"]  # which the older layout dropped
        assert extra >= 0
        newest = {"history": now["history"][extra:], "history_depth": then["history_depth"]}
        assert now | newest == then
