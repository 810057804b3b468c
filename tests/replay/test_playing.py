"""A person plays."""

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
    """Says lines to a game of a seed; gives all that it says."""

    def talk(*lines: str, seed: int = 4, advised: bool = False) -> list[str]:
        def decide(observation: np.ndarray, mask: np.ndarray, step: int, _: Any) -> Decision:
            weights = mask * np.arange(1, mask.size + 1)  # the later, the likelier
            return Decision(int(np.argmax(mask)), (weights / weights.sum()).tolist(), 1.5)

        said: list[str] = []
        Playing(seed, said.append, decide if advised else None, colour=False).converse(lines)
        return said

    return talk


def boards(said: list[str]) -> list[str]:
    return [each for each in said if each.startswith("+")]


def valid(said: list[str]) -> list[str]:
    """The names of the actions that are valid on the last board."""
    line = [each for each in said if each.startswith("valid: ")][-1]
    return [name for name in ACTION_NAMES if f" {name} (" in line]


def file_of(directory: Path, **state: Any) -> Path:
    """A board as a file, from what a client of the headless protocol would set."""
    file = directory / "state.json"
    file.write_text(json.dumps(read_state(state)[0]))
    return file


def rich(directory: Path) -> Path:
    """The file of a board whose player owns programs and can pay for some."""
    enemy = {"type": "virus", "row": 0, "col": 5, "hp": 2}
    player = {"row": 0, "col": 0, "credits": 5, "energy": 5, "dataSiphons": 1}
    return file_of(directory, player=player, enemies=[enemy], ownedPrograms=[5, 8, 10, 18, 23])


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
    told = {}
    for is_low in (False, True):
        said: list[str] = []
        playing = Playing(4, said.append, colour=False, is_low=lambda low=is_low: low)  # type: ignore[misc]
        playing.converse([f"load {rich(tmp_path)}", "up"])
        last = max(place for place, each in enumerate(said) if each.startswith("+"))
        told[is_low] = [line for each in said[last:] for line in each.splitlines()]
    rows = {is_low: sum(max(-(-len(line) // 80), 1) for line in told[is_low]) for is_low in told}
    assert rows[True] < 24 < rows[False]  # the last is that of the prompt
    assert len([line for line in told[True] if line.startswith("|")]) == 12
    assert "hp 3/3" in "".join(told[True])


def test_where_no_action_is_valid_it_is_said_that_the_game_cannot_go_on(
    talk: Talk, tmp_path: Path
) -> None:
    walls = [{"row": row, "col": 1 - row, "type": "data"} for row in (0, 1)]
    file = file_of(tmp_path, player={"row": 0, "col": 0}, blocks=walls)
    said = talk(f"load {file}", advised=True)
    assert said[-1] == "no action is valid: this game cannot continue; type new, load FILE or quit"


def test_words_may_be_written_as_the_rules_write_them(talk: Talk, tmp_path: Path) -> None:
    action = valid(talk())[0]
    assert talk(action.upper(), "QUIT", action) == talk(action)
    there = tmp_path / "Board.json"
    talk(f"SAVE {there}")
    assert there.exists()


def test_the_whereabouts_of_a_cryptog_are_told_only_where_it_is_seen(
    talk: Talk, tmp_path: Path
) -> None:
    enemy = {"type": "cryptog", "row": 5, "col": 4, "hp": 2}
    there: dict[str, Any] = {"player": {"row": 0, "col": 0}, "enemies": [enemy]}
    said = talk(f"load {file_of(tmp_path, **there)}", "up")
    assert "cryptog" not in "".join(said)
    file = file_of(tmp_path, **there, showActivated=True)
    assert "  cryptog at row 5 col 4 moves to row 4 col 4" in talk(f"load {file}", "up")


def test_what_cannot_be_done_is_said_and_changes_nothing(talk: Talk) -> None:
    said = talk("push", "hack", "nonsense", "", "load nowhere.json", "save", "quit", "up")
    assert len(boards(said)) == 1
    assert "push is not valid now" in said
    assert "hack is not valid now" in said
    assert "'nonsense' is not an action; type help for the commands" in said
    assert "nowhere.json: No such file or directory" in said


def test_no_letter_means_a_move_that_is_the_beginning_of_a_program(
    talk: Talk, tmp_path: Path
) -> None:
    said = talk(f"load {rich(tmp_path)}", "s", "w", "d")
    assert said[-3:] == [
        "'s' may mean siphon or show; type help for the commands",
        "'w' may mean warp or wait; type help for the commands",
        "'d' is not an action; type help for the commands",
    ]
    assert "  credits 5 → 2" in talk(f"load {rich(tmp_path)}", "a")  # anti-v


def test_a_file_must_be_named(talk: Talk) -> None:
    said = talk("save", "load")
    assert said[-2:] == ["save needs a file: type save FILE", "load needs a file: type load FILE"]


def test_what_is_valid_is_listed_with_its_cost(talk: Talk, tmp_path: Path) -> None:
    listed = [each for each in talk(f"load {rich(tmp_path)}") if each.startswith("valid: ")][-1]
    assert "up (0)  " in listed
    assert "push (5) for 2 energy" in listed
    assert "warp (8) for 2 credits, 2 energy" in listed


def test_without_colour_no_escape_is_written(talk: Talk, tmp_path: Path) -> None:
    assert "\x1b" not in "".join(talk(f"load {rich(tmp_path)}", "help", "up"))


def test_a_saved_board_is_loaded_again(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    action = valid(talk())[0]
    there = talk(action, "save ~/board.json")
    assert json.loads((tmp_path / "board.json").read_text())["turn"] == 1
    again = talk("load ~/board.json", seed=9)
    assert boards(again)[-1] == boards(there)[-1]
    assert valid(again) == valid(there)


def test_a_game_that_is_over_is_over_when_it_is_loaded(talk: Talk, tmp_path: Path) -> None:
    file = tmp_path / "board.json"
    talk(f"save {file}")
    board = json.loads(file.read_text())
    for ending in ({"player": [*board["player"][:2], 0, *board["player"][3:]]}, {"stage": 9}):
        file.write_text(json.dumps({**board, **ending}))
        said = talk(f"load {file}", "up")
        assert "the loaded game is over; type new, load FILE or quit" in said
        assert said[-1] == "the game is over: type new, load FILE or quit"


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"player": 3}', "3", "[" * 100_000])
def test_a_file_that_is_no_scenario_is_refused(talk: Talk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "board.json"
    file.write_text(text)
    said = talk(f"load {file}")
    assert len(boards(said)) == 1
    assert any(each.startswith(f"{file} is not a scenario: ") for each in said)


def test_a_policy_gives_advice_if_asked(talk: Talk, tmp_path: Path) -> None:
    assert not any("the policy" in each for each in talk())
    asked = talk(f"load {rich(tmp_path)}", advised=True)
    likeliest = [f"{name} \\d+%" for name in reversed(valid(asked)[-3:])]
    assert re.fullmatch(f"the policy: {', '.join(likeliest)}; value 1.50", asked[-1])


def test_advice_is_compiled_before_there_is_a_board_to_think_about() -> None:
    asked, said = [], list[str]()

    def decide(*seen: Any) -> Decision:
        asked.append(seen)
        return Decision(0, [1.0] * len(ACTION_NAMES), 1.5)

    Playing(4, said.append, decide, colour=False).warm_up()
    assert len(asked) == 1
    Playing(4, said.append, colour=False).warm_up()
    assert said == []


def test_a_best_checkpoint_of_no_run_is_refused_in_one_line() -> None:
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
def test_it_is_said_how_a_game_ended(
    talk: Talk, tmp_path: Path, state: dict[str, Any], action: str, end: str
) -> None:
    said = talk(f"load {file_of(tmp_path, **state)}", action)
    assert said[-1] == f"{end}: the game is over; type new, load FILE or quit"


def test_the_programs_of_the_player_are_shown_in_the_order_in_which_they_came(
    talk: Talk, tmp_path: Path
) -> None:
    warp = {"row": 0, "col": 1, "type": "program", "programType": "warp"}
    player = {"row": 0, "col": 0, "dataSiphons": 1}
    file = file_of(tmp_path, player=player, ownedPrograms=[5, 10], blocks=[warp])
    *_, before, after = boards(talk(f"load {file}", "siphon"))
    assert before.splitlines()[-1] == "push wait"
    assert after.splitlines()[-1] == "push wait warp"


def test_a_game_ends_and_another_begins(talk: Talk) -> None:
    rng = np.random.default_rng(0)
    moves = [str(each) for each in rng.integers(0, 4, 400)]
    said = talk(*moves)
    ends = [each for each in said if "the game is over; type new" in each]
    assert len(ends) == 1
    assert said[-1] == "the game is over: type new, load FILE or quit"
    assert boards(talk(*moves, "new"))[-1] != boards(said)[-1]
