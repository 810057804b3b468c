"""`Followed` reconstructs another program's game exactly enough for an agent to plan in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from hackmatrix import game
from hackmatrix.envs.headless import Followed, Session
from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import internal_state, observation
from hackmatrix.game import hidden, scenario
from hackmatrix.game.programs import Program
from hackmatrix.game.randomness import as_key
from hackmatrix.game.state import FIRST_PROGRAM, HISTORY_DEPTH
from tests.envs.headless.asking import ask
from tests.envs.headless.recordings import differences, read

KINDS = ("virus", "daemon", "glitch", "cryptog")
OFTEN = (Program.UNDO, Program.STEP, Program.ATK, Program.REDUC, Program.SHOW)


def internal_and_valid(session: Session) -> tuple[Any, list[int]]:
    return ask(session, "getInternalState"), ask(session, "getValidActions")["validActions"]


def rich_state(draws: np.random.Generator) -> dict[str, Any]:
    """Returns a state for setState whose player owns all programs and can pay for them."""
    places = [divmod(int(cell), 6) for cell in draws.permutation(35)]

    def place() -> dict[str, int]:
        return dict(zip(("row", "col"), places.pop(), strict=True))

    return {
        "player": {**place(), "hp": 3, "credits": 40, "energy": 40, "dataSiphons": 5},
        "enemies": [{**place(), "type": KINDS[draws.integers(4)], "hp": 2} for _ in range(4)],
        "transmissions": [
            {**place(), "turnsRemaining": turns, "enemyType": KINDS[draws.integers(4)]}
            for turns in (1, 2, 3)
        ],
        "blocks": [
            *({**place(), "type": "data", "points": points} for points in (1, 4, 9)),
            *({**place(), "type": "program", "programType": name} for name in ("undo", "hack")),
        ],
        "ownedPrograms": list(range(FIRST_PROGRAM, game.ACTIONS)),
        "stage": int(draws.integers(1, 8)),
    }


def random_play(seed: int, boards: int) -> Iterator[tuple[game.State, game.State, int]]:
    """Yields boards of random games, actual and followed, and the action that led there, or -1."""
    session, draws = Session(seed), np.random.default_rng(seed)
    action = None
    for _ in range(boards):
        if action is None:
            seen = ask(session, "setState", state=rich_state(draws))["observation"]
            followed = Followed(seen, *internal_and_valid(session))
        else:
            answer = ask(session, "step", actionIndex=action)
            if answer["done"]:
                action = None
                continue
            followed.follow(action, answer["observation"], *internal_and_valid(session))
        actual = jax.tree.map(lambda leaf: np.asarray(leaf)[0], session._games.states)
        yield actual, followed.state(), -1 if action is None else action
        valid = internal_and_valid(session)[1]
        chances = np.array([3 if each in OFTEN or each < 4 else 1 for each in valid])
        action = int(draws.choice(valid, p=chances / chances.sum()))


def in_order_of_cells(state: game.State) -> game.State:
    """Sorts transmissions by cell, as the protocol does not tell which one came first."""
    board = scenario.dump(state)
    for each in (board, *board["history"]):
        each["transmissions"].sort(key=lambda entry: entry[:2])
    return scenario.load(board)


def test_a_followed_game_equals_the_actual_one_but_for_what_a_planner_redraws() -> None:
    actual, followed, actions = zip(*random_play(seed=4, boards=200), strict=True)
    assert {Program.UNDO, Program.STEP, Program.ATK, Program.REDUC, Program.SHOW} < set(actions)
    # UNDO also restores boards of the stage before, whose exit is not the exit that counts.
    assert any(
        action == Program.UNDO and not bool(state.board.exit.has(state.exit_cell))
        for state, action in zip(actual, actions, strict=True)
    )
    assert max(int(state.history.depth) for state in actual) == HISTORY_DEPTH
    redrawn = jax.jit(jax.vmap(lambda state: hidden.redrawn(as_key(jax.random.key(1)), state)))
    stacked = [
        jax.tree.map(lambda *leaves: np.stack(leaves), *states)
        for states in (map(in_order_of_cells, actual), followed)
    ]
    jax.tree.map(np.testing.assert_array_equal, *map(redrawn, stacked))


def shown(followed: Followed, seen: Any) -> dict[str, Any]:
    """Returns what our program would send for the board. The order of programs and the hints for
    cryptogs are those of `seen`, as they are not followed.
    """
    board = scenario.dump(followed.state())
    hints = [(hint["row"], hint["col"]) for hint in seen["cryptogHints"]]
    owned = [action - FIRST_PROGRAM for action in seen["ownedPrograms"]]
    return {"observation": observation(board, owned, hints), "internal": internal_state(board)}


def test_followed_boards_show_what_the_canonical_program_sent() -> None:
    recordings = [each for each in read() if len(each.exchanges) == 5]
    assert len(recordings) == 150
    begun, masks = [], []
    wrong: list[str] = []
    for recording in recordings:
        (_, first), (_, valid), (_, internal), (command, then), (_, after) = recording.exchanges
        followed = Followed(first["observation"], internal, valid["validActions"])
        begun.append(followed.state())
        masks.append(np.isin(np.arange(game.ACTIONS), valid["validActions"]))
        sent = {"observation": first["observation"], "internal": internal}
        wrong += differences(shown(followed, sent["observation"]), sent, recording.name)
        followed.follow(command["actionIndex"], then["observation"], after, [])
        sent = {"observation": then["observation"], "internal": after}
        wrong += differences(shown(followed, sent["observation"]), sent, recording.name)
    assert not wrong
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *begun)
    np.testing.assert_array_equal(jax.jit(jax.vmap(game.valid_actions))(stacked), masks)


def test_a_hidden_block_that_reduc_cannot_reduce_is_known_to_spawn_nothing() -> None:
    board, owned = read_state({"player": {"row": 0, "col": 0, "credits": 2, "energy": 1}})
    board["cells"][7] = ["QP", 3, 0, {"c": 0, "e": 0, "s": 0, "m": 0}]
    seen, internal = observation(board, owned, []), internal_state(board)
    for valid, spawn in (([0, 3, Program.REDUC], 1), ([0, 3], 0)):
        kind, _, known, _ = scenario.dump(Followed(seen, internal, valid).state())["cells"][7]
        assert (kind, known) == ("QD", spawn)


def test_undo_of_the_move_that_completed_a_stage_adds_no_snapshot() -> None:
    """Although the turn rises from 0 to 1, as after an action that does add one."""
    session, wait, up = Session(1), Program.WAIT, 0
    player = {"row": 4, "col": 5, "credits": 9, "energy": 9}
    start = {"player": player, "ownedPrograms": [wait, Program.UNDO], "turn": 0}
    seen = ask(session, "setState", state=start)["observation"]
    followed, turns = Followed(seen, *internal_and_valid(session)), []
    for action in (wait, up, Program.UNDO):
        seen = ask(session, "step", actionIndex=action)["observation"]
        followed.follow(action, seen, *internal_and_valid(session))
        turns.append(seen["turn"])
    assert turns == [1, 0, 1]
    assert Program.UNDO not in internal_and_valid(session)[1]
    state, actual = followed.state(), session._games.board(0)
    assert state.history.depth == 0
    assert state.exit_cell == actual.exit_cell != 35
    assert scenario.dump(state)["cells"][35][0] == "X"


def test_completing_a_stage_by_warp_moves_the_exit_too() -> None:
    session, warp = Session(1), Program.WARP
    arriving = {"row": 5, "col": 5, "turnsRemaining": 3, "enemyType": "virus"}
    player = {"row": 0, "col": 0, "credits": 9, "energy": 9}
    start = {"player": player, "ownedPrograms": [warp], "transmissions": [arriving]}
    seen = ask(session, "setState", state=start)["observation"]
    followed = Followed(seen, *internal_and_valid(session))
    seen = ask(session, "step", actionIndex=warp)["observation"]
    followed.follow(warp, seen, *internal_and_valid(session))
    assert seen["stage"] == 2
    assert followed.state().exit_cell == session._games.board(0).exit_cell != 35
