"""Scenarios are loaded and dumped unchanged, and a wrong one is refused with the reason."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from boards import FLAGS, State, batches, plain, snapshot
from hypothesis import HealthCheck, Phase, given, settings

from hackmatrix import game
from hackmatrix.game import history, reward
from hackmatrix.game.cells import LONGEST_PATH
from hackmatrix.game.state import Effects

few_examples = settings(
    max_examples=10,
    derandomize=True,
    phases=[Phase.generate],  # shrinking a batch of boards takes far too long
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
OTHER_DEPTH = 6


def changed(state: State, path: tuple[Any, ...], value: Any) -> State:
    """The state with the value at this path replaced."""
    state = copy.deepcopy(state)
    holder: Any = state
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return state


def expect_refused(state: Any, *words: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the words are looked for one by one
        game.scenario.load(state)
    for word in words:
        assert word in str(raised.value)


@few_examples
@given(states=batches(8))
def test_a_scenario_that_is_loaded_and_dumped_is_the_same(states: list[State]) -> None:
    for state in states:
        dumped = json.loads(json.dumps(game.scenario.dump(game.scenario.load(state))))
        assert dumped == json.loads(json.dumps(state))


def test_a_plain_scenario_is_accepted() -> None:
    assert game.scenario.dump(game.scenario.load(plain())) == plain()


def test_several_boards_at_once_are_not_dumped() -> None:
    several = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), game.scenario.load(plain()))
    with pytest.raises(ValueError, match="dump takes one board: select it with jax"):
        game.scenario.dump(several)


@pytest.mark.parametrize("name", [name for name in plain() if not name.startswith("history")])
def test_a_scenario_that_lacks_a_key_is_refused(name: str) -> None:
    expect_refused({key: value for key, value in plain().items() if key != name}, "missing", name)


@pytest.mark.parametrize(
    ("path", "value", "field", "shown"),
    [
        # off the board
        (("player", 0), 6, "player", "6"),
        (("player", 1), -1, "player", "-1"),
        (("exit", 0), 6, "exit", "6"),
        (("enemies", 0, 1), 6, "enemies[0].row", "6"),
        (("enemies", 0, 2), -1, "enemies[0].column", "-1"),
        (("transmissions", 0, 0), 9, "transmissions[0].row", "9"),
        (("transmissions", 0, 1), 6, "transmissions[0].column", "6"),
        # cells
        (("cells", 7), ["Z", FLAGS], "cells[7]", "'Z'"),
        (("cells", 7), [], "cells[7]", "None"),
        (("cells", 7), [["x"], FLAGS], "cells[7]", "['x']"),
        (("cells", 7), ["D", 3, FLAGS], "cells[7]", "4 values"),
        (("cells", 7), [".", 3, 3, FLAGS], "cells[7]", "2 values"),
        (("cells", 7), [".", {"c": 1}], "cells[7]", "e, s, m"),
        (("cells", 7), [".", {**FLAGS, "c": 8}], "cells[7].c", "8"),
        (("cells", 7), [".", {**FLAGS, "e": 8}], "cells[7].e", "8"),
        (("cells", 7), [".", {**FLAGS, "c": 2, "e": 3}], "cells[7]", "e: 3"),
        (("cells", 7), [".", {**FLAGS, "e": -1}], "cells[7].e", "-1"),
        (("cells", 7), [".", {**FLAGS, "s": 2}], "cells[7].s", "2"),
        (("cells", 7), ["P", 23, 1, FLAGS], "cells[7].program", "23"),
        (("cells", 7), ["QP", -1, 1, FLAGS], "cells[7].program", "-1"),
        (("cells", 7), ["D", 32, 1, FLAGS], "cells[7].points", "32"),
        (("cells", 7), ["QD", 1, 16, FLAGS], "cells[7].spawn", "16"),
        # lengths
        (("player",), [0, 0, 3], "player", "[0, 0, 3]"),
        (("exit",), [0], "exit", "[0]"),
        (("cells",), [[".", FLAGS]] * 35, "cells", "36 values"),
        (("enemies", 0), [1, 3, 3], "enemies[0]", "[1, 3, 3]"),
        (("transmissions", 0), [4, 4, 1, 0, 0, 0, 0], "transmissions[0]", "[4, 4, 1, 0, 0, 0, 0]"),
        (("enemies",), [[1, 3, 3, 3, 0, 0, 0, 0]] * 33, "enemies", "33"),
        (("transmissions",), [[4, 4, 1, 0, 0, 0]] * 33, "transmissions", "33"),
        # values that a field does not have
        (("owned",), [23], "owned", "23"),
        (("owned",), [-1], "owned", "-1"),
        (("enemies", 0, 0), 4, "enemies[0].type", "4"),
        (("enemies", 0, 3), 0, "enemies[0].hp", "0"),
        (("enemies", 0), [0, 3, 3, 3, 0, 0, 0, 0], "enemies[0].hp", "3"),
        (("enemies", 0, 4), 2, "enemies[0].disabled", "2"),
        (("transmissions", 0, 2), 64, "transmissions[0].turns", "64"),
        (("transmissions", 0, 3), 4, "transmissions[0].type", "4"),
        (("player", 2), 4, "player.hp", "4"),
        (("stage",), 0, "stage", "0"),
        (("stage",), 10, "stage", "10"),
        (("show",), 2, "show", "2"),
        (("calm",), -1, "calm", "-1"),
        (("step",), 2, "step", "2"),
        # not integers
        (("player", 3), 1.5, "player.credits", "1.5"),
        (("player", 7), "ten", "player.score", "'ten'"),
        (("turn",), 1.0, "turn", "1.0"),
        (("pending",), None, "pending", "None"),
        (("enemies", 0, 3), "3", "enemies[0].hp", "'3'"),
        (("owned",), [0.5], "owned", "0.5"),
        # negative counters
        (("player", 3), -1, "player.credits", "-1"),
        (("player", 4), -2, "player.energy", "-2"),
        (("player", 5), -3, "player.data_siphons", "-3"),
        (("player", 6), -4, "player.attack", "-4"),
        (("turn",), -1, "turn", "-1"),
        (("pending",), -1, "pending", "-1"),
        (("interval",), -1, "interval", "-1"),
        (("next_task",), -1, "next_task", "-1"),
        (("atk_uses",), -1, "atk_uses", "-1"),
        (("history_depth",), -1, "history_depth", "-1"),
        # numbers that no game reaches
        (("pending",), 1024, "pending", "1024"),
        (("player", 7), 100_001, "player.score", "100001"),
        (("player", 7), -100_001, "player.score", "-100001"),
    ],
)
def test_a_scenario_with_a_wrong_value_is_refused_with_its_field_and_value(
    path: tuple[Any, ...], value: Any, field: str, shown: str
) -> None:
    expect_refused(changed(plain(), path, value), field, shown)


@pytest.mark.parametrize(
    ("path", "greatest"),
    [
        *((("player", 3 + number), (1 << 15) - 1) for number in range(2)),
        *((("player", 5 + number), (1 << 11) - 1) for number in range(2)),
        (("turn",), (1 << 15) - 1),
        (("atk_uses",), 63),
        *(((name,), (1 << 30) - 1) for name in ("interval", "next_task")),
        (("pending",), 1023),
    ],
)
def test_a_snapshot_has_room_for_twice_the_greatest_number_that_can_be_loaded(
    path: tuple[Any, ...], greatest: int
) -> None:
    state = game.scenario.load(changed(plain(), path, greatest))
    grown = jax.tree.map(
        lambda leaf: leaf * 2 if np.asarray(leaf).max() == greatest else leaf, state
    )
    restored = history.unpack(history.pack(grown), grown)
    for name in ("player", "turn", "atk_uses", "pending", "interval", "next_task", "owned"):
        same = jax.tree.map(np.array_equal, getattr(restored, name), getattr(grown, name))
        assert jax.tree.all(same), name
    expect_refused(changed(plain(), path, greatest + 1), path[0], str(greatest + 1))


@pytest.mark.parametrize("scenario", [None, 3, "board", [1, 2]])
def test_a_scenario_that_is_not_a_dictionary_is_refused(scenario: Any) -> None:
    expect_refused(scenario, "scenario", repr(scenario))


@pytest.mark.parametrize("path", [("enemies",), ("transmissions",), ("owned",), ("history",)])
@pytest.mark.parametrize("value", [3, None])
def test_a_value_that_is_not_a_list_is_refused_where_one_is_needed(
    path: tuple[str], value: Any
) -> None:
    expect_refused(changed(plain(), path, value), path[0], repr(value))


def test_a_wrong_snapshot_is_refused_with_its_index() -> None:
    state = {**plain(), "history": [snapshot(plain()), snapshot(plain())], "history_depth": 2}
    assert game.scenario.dump(game.scenario.load(state)) == state
    expect_refused(changed(state, ("history", 1, "player", 2), 4), "history[1].player.hp", "4")
    expect_refused(changed(state, ("history", 0), {"turn": 1}), "history[0]", "missing", "player")
    many = {**plain(), "history": [snapshot(plain()) for _ in range(20)], "history_depth": 20}
    expect_refused(changed(many, ("history", 19, "turn"), -1), "history[19].turn", "-1")


@pytest.mark.parametrize("depth", [0, -1])
def test_a_history_depth_below_one_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=f"history_depth: {depth} is not an integer from 1 to"):
        game.scenario.load(plain(), history_depth=depth)


def test_the_reward_of_a_victory_with_the_greatest_score_does_not_overflow() -> None:
    state = game.scenario.load({**plain(), "stage": 8, "player": [0, 4, 3, 0, 0, 0, 1, 100_000]})
    given: Any = np.bool_(False), np.bool_(True), np.int32(0), np.int32(LONGEST_PATH)
    no, yes, nothing, way = given
    units = reward.reward_units(
        state,
        state,
        action=nothing,
        valid=yes,
        completed=yes,
        died=no,
        effects=Effects(nothing, nothing, nothing),
        closer=way,
    )
    assert units["victory"] == 100_000 + 20_000 * 100_000
    assert sum(units.values()) == sum(map(int, units.values()))


@pytest.mark.parametrize("action", [-1, 28, 1.5, "up", None, True])
def test_a_value_that_is_not_an_action_is_refused(action: Any) -> None:
    with pytest.raises(ValueError, match="action") as raised:
        game.scenario.check_action(action)
    assert repr(action) in str(raised.value)


def test_every_action_is_accepted() -> None:
    assert [game.scenario.check_action(np.int32(action)) for action in range(28)] == [*range(28)]


def test_a_history_may_have_any_depth() -> None:
    reset = jax.jit(partial(game.reset, history_depth=OTHER_DEPTH))
    state = reset(jax.random.key(0))
    assert state.history.snapshots.shape[0] == OTHER_DEPTH
    dumped = game.scenario.dump(state)
    assert dumped["history_depth"] == 0
    reloaded = game.scenario.load(dumped, OTHER_DEPTH)
    jax.tree.map(np.testing.assert_array_equal, reloaded, state)


def test_a_deeper_history_holds_more_snapshots_and_restores_the_newest_first() -> None:
    states = jax.tree.map(
        lambda leaf: np.asarray(leaf)[None],
        game.scenario.load({**plain(), "turn": 0}, history_depth=OTHER_DEPTH),
    )
    always, push, undo = np.array([True]), jax.jit(history.push), jax.jit(history.undo)
    for turn in range(1, OTHER_DEPTH + 3):
        states = push(states.replace(turn=np.array([turn], np.int32)), always)
    turns = range(3, OTHER_DEPTH + 3)
    board = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states)
    dumped = game.scenario.dump(board)
    assert [each["turn"] for each in dumped["history"]] == [*turns]
    assert dumped["history_depth"] == OTHER_DEPTH
    assert game.scenario.dump(game.scenario.load(dumped, OTHER_DEPTH)) == dumped
    for turn in reversed(turns):
        states = undo(states, always)
        assert states.turn[0] == turn
    assert states.history.depth[0] == 0


def test_a_shallower_history_keeps_the_newest_snapshots() -> None:
    snapshots = [{**snapshot(plain()), "turn": turn} for turn in range(OTHER_DEPTH)]
    state = {**plain(), "history": snapshots, "history_depth": OTHER_DEPTH}
    dumped = game.scenario.dump(game.scenario.load(state, history_depth=2))
    assert (dumped["history"], dumped["history_depth"]) == (snapshots[-2:], 2)


def test_the_generated_boards_have_everything_that_a_board_can_have() -> None:
    """Otherwise the tests that use them would prove less than they claim."""
    seen: set[str] = set()

    @few_examples
    @given(states=batches(8))
    def look(states: list[State]) -> None:
        for state in states:
            seen.update(cell[0] for cell in state["cells"])
            places = [tuple(enemy[1:3]) for enemy in state["enemies"]]
            seen.update(["shared"] * (len(set(places)) < len(places)))
            seen.update(["on the player"] * (tuple(state["player"][:2]) in places))
            seen.add(f"{len(state['history'])} snapshots")
            seen.update(f"program {program}" for program in state["owned"])

    look()
    expected = {".", "S", "X", "D", "P", "QD", "QP", "shared", "on the player", "4 snapshots"}
    assert not (expected | {f"program {program}" for program in range(23)}) - seen
