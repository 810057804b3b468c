"""Games that a person plays by typing commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.envs.headless import Decision
from hackmatrix.envs.headless.states import read_state
from hackmatrix.replay.playing import Playing

Talk = Callable[..., list[str]]


@pytest.fixture
def talk() -> Talk:
    """Returns a function that types lines in a new game and returns all that is printed."""

    def talk(*lines: str, seed: int = 4, advised: bool = False) -> list[str]:
        def decide(observation: np.ndarray, mask: np.ndarray, step: int, _: Any) -> Decision:
            weights = mask * np.arange(1, mask.size + 1)  # later actions are likelier
            return Decision(int(np.argmax(mask)), (weights / weights.sum()).tolist(), 1.5)

        printed: list[str] = []
        Playing(seed, printed.append, decide if advised else None, colour=False).converse(lines)
        return printed

    return talk


def boards(printed: list[str]) -> list[str]:
    return [each for each in printed if each.startswith("+")]


def valid(printed: list[str]) -> list[str]:
    """The names of the actions that are valid on the last board."""
    line = [each for each in printed if each.startswith("valid: ")][-1]
    return [name for name in ACTION_NAMES if f" {name} (" in line]


def board_file(directory: Path, **state: Any) -> Path:
    """Writes a file of a board, given as a client of the headless protocol gives it."""
    file = directory / "state.json"
    file.write_text(json.dumps(read_state(state)[0]))
    return file


def rich_file(directory: Path) -> Path:
    """Writes a file of a board whose player owns programs and can pay for some."""
    enemy = {"type": "virus", "row": 0, "col": 5, "hp": 2}
    player = {"row": 0, "col": 0, "credits": 5, "energy": 5, "dataSiphons": 1}
    return board_file(directory, player=player, enemies=[enemy], ownedPrograms=[5, 8, 10, 18, 23])


def test_the_board_and_the_mask_are_shown_and_actions_are_taken(talk: Talk) -> None:
    first = talk()
    assert len(boards(first)) == 1
    action = valid(first)[0]
    after = talk(action)
    assert len(boards(after)) == 2
    assert boards(after)[0] == boards(first)[0] != boards(after)[1]
    assert any(each.startswith("  reward ") for each in after)
    for spelling in (str(ACTION_NAMES.index(action)), action[:2]):
        assert talk(spelling) == after


def test_a_turn_fits_on_a_terminal_of_24_lines(tmp_path: Path) -> None:
    turns = {}
    for is_low in (False, True):
        printed: list[str] = []
        playing = Playing(4, printed.append, colour=False, is_low=lambda low=is_low: low)  # type: ignore[misc]
        playing.converse([f"load {rich_file(tmp_path)}", "up"])
        last = max(place for place, each in enumerate(printed) if each.startswith("+"))
        turns[is_low] = [line for each in printed[last:] for line in each.splitlines()]
    rows = {is_low: sum(max(-(-len(line) // 80), 1) for line in turns[is_low]) for is_low in turns}
    assert rows[True] < 24 < rows[False]  # one more is needed for the prompt
    assert len([line for line in turns[True] if line.startswith("|")]) == 12
    assert "hp 3/3" in "".join(turns[True])


def test_a_board_without_a_valid_action_is_reported(talk: Talk, tmp_path: Path) -> None:
    walls = [{"row": row, "col": 1 - row, "type": "data"} for row in (0, 1)]
    file = board_file(tmp_path, player={"row": 0, "col": 0}, blocks=walls)
    printed = talk(f"load {file}", advised=True)
    assert (
        printed[-1] == "no action is valid: this game cannot continue; type new, load FILE or quit"
    )


def test_commands_may_be_written_in_capitals(talk: Talk, tmp_path: Path) -> None:
    action = valid(talk())[0]
    assert talk(action.upper(), "QUIT", action) == talk(action)
    there = tmp_path / "Board.json"
    talk(f"SAVE {there}")
    assert there.exists()


def test_a_cryptog_is_described_only_where_it_is_seen(talk: Talk, tmp_path: Path) -> None:
    enemy = {"type": "cryptog", "row": 5, "col": 4, "hp": 2}
    there: dict[str, Any] = {"player": {"row": 0, "col": 0}, "enemies": [enemy]}
    printed = talk(f"load {board_file(tmp_path, **there)}", "up")
    assert "cryptog" not in "".join(printed)
    file = board_file(tmp_path, **there, showActivated=True)
    assert "  cryptog at row 5 col 4 moves to row 4 col 4" in talk(f"load {file}", "up")


def test_impossible_commands_are_reported_and_change_nothing(talk: Talk) -> None:
    printed = talk("push", "hack", "nonsense", "", "load nowhere.json", "save", "quit", "up")
    assert len(boards(printed)) == 1
    assert "push is not valid now" in printed
    assert "hack is not valid now" in printed
    assert "'nonsense' is not an action; type help for the commands" in printed
    assert "nowhere.json: No such file or directory" in printed


def test_a_letter_that_begins_a_program_is_not_taken_for_a_move(talk: Talk, tmp_path: Path) -> None:
    printed = talk(f"load {rich_file(tmp_path)}", "s", "w", "d")
    assert printed[-3:] == [
        "'s' may mean siphon or show; type help for the commands",
        "'w' may mean warp or wait; type help for the commands",
        "'d' is not an action; type help for the commands",
    ]
    assert "  credits 5 → 2" in talk(f"load {rich_file(tmp_path)}", "a")  # anti-v


def test_save_and_load_need_a_file(talk: Talk) -> None:
    printed = talk("save", "load")
    assert printed[-2:] == [
        "save needs a file: type save FILE",
        "load needs a file: type load FILE",
    ]


def test_valid_actions_are_listed_with_their_costs(talk: Talk, tmp_path: Path) -> None:
    listed = [each for each in talk(f"load {rich_file(tmp_path)}") if each.startswith("valid: ")][
        -1
    ]
    assert "up (0)  " in listed
    assert "push (5) for 2 energy" in listed
    assert "warp (8) for 2 credits, 2 energy" in listed


def test_without_colour_no_escape_is_written(talk: Talk, tmp_path: Path) -> None:
    assert "\x1b" not in "".join(talk(f"load {rich_file(tmp_path)}", "help", "up"))


def test_a_saved_board_can_be_loaded(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    action = valid(talk())[0]
    there = talk(action, "save ~/board.json")
    assert json.loads((tmp_path / "board.json").read_text())["turn"] == 1
    again = talk("load ~/board.json", seed=9)
    assert boards(again)[-1] == boards(there)[-1]
    assert valid(again) == valid(there)


def test_a_finished_game_is_still_over_when_it_is_loaded(talk: Talk, tmp_path: Path) -> None:
    file = tmp_path / "board.json"
    talk(f"save {file}")
    board = json.loads(file.read_text())
    for ending in ({"player": [*board["player"][:2], 0, *board["player"][3:]]}, {"stage": 9}):
        file.write_text(json.dumps({**board, **ending}))
        printed = talk(f"load {file}", "up")
        assert "the loaded game is over; type new, load FILE or quit" in printed
        assert printed[-1] == "the game is over: type new, load FILE or quit"


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"player": 3}', "3", "[" * 100_000])
def test_a_file_that_is_no_scenario_is_refused(talk: Talk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "board.json"
    file.write_text(text)
    printed = talk(f"load {file}")
    assert len(boards(printed)) == 1
    assert any(each.startswith(f"{file} is not a scenario: ") for each in printed)


def test_a_policy_gives_advice_if_asked(talk: Talk, tmp_path: Path) -> None:
    assert not any("the policy" in each for each in talk())
    advised = talk(f"load {rich_file(tmp_path)}", advised=True)
    likeliest = [f"{name} \\d+%" for name in reversed(valid(advised)[-3:])]
    assert re.fullmatch(f"the policy: {', '.join(likeliest)}; value 1.50", advised[-1])


def test_advice_is_compiled_before_the_first_board() -> None:
    decided, printed = [], list[str]()

    def decide(*seen: Any) -> Decision:
        decided.append(seen)
        return Decision(0, [1.0] * len(ACTION_NAMES), 1.5)

    Playing(4, printed.append, decide, colour=False).warm_up()
    assert len(decided) == 1
    Playing(4, printed.append, colour=False).warm_up()
    assert printed == []


def test_best_without_a_run_is_refused_in_one_line() -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "launch.play", "--best"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr == "launch.play: --best needs a run: use --run=RUN\n"


@pytest.mark.parametrize(
    ("state", "action", "end"),
    [
        ({"player": {"row": 5, "col": 4}, "stage": 8}, "right", "victory"),
        (
            {
                "player": {"row": 0, "col": 0, "hp": 1},
                "enemies": [{"type": "virus", "row": 0, "col": 1, "hp": 2}],
            },
            "up",
            "death",
        ),
    ],
)
def test_the_way_a_game_ended_is_printed(
    talk: Talk, tmp_path: Path, state: dict[str, Any], action: str, end: str
) -> None:
    printed = talk(f"load {board_file(tmp_path, **state)}", action)
    assert printed[-1] == f"{end}: the game is over; type new, load FILE or quit"


def test_the_programs_of_the_player_are_shown_in_the_order_in_which_they_were_gained(
    talk: Talk, tmp_path: Path
) -> None:
    warp = {"row": 0, "col": 1, "type": "program", "programType": "warp"}
    player = {"row": 0, "col": 0, "dataSiphons": 1}
    file = board_file(tmp_path, player=player, ownedPrograms=[5, 10], blocks=[warp])
    *_, before, after = boards(talk(f"load {file}", "siphon"))
    assert before.splitlines()[-1] == "push wait"
    assert after.splitlines()[-1] == "push wait warp"


def test_a_game_ends_and_another_begins(talk: Talk) -> None:
    rng = np.random.default_rng(0)
    moves = [str(each) for each in rng.integers(0, 4, 400)]
    printed = talk(*moves)
    ends = [each for each in printed if "the game is over; type new" in each]
    assert len(ends) == 1
    assert printed[-1] == "the game is over: type new, load FILE or quit"
    assert boards(talk(*moves, "new"))[-1] != boards(printed)[-1]
