"""Game programs: how they are started and ended."""

from __future__ import annotations

import time

import pytest

from hackmatrix.errors import UserError
from hackmatrix.standalone import driving
from hackmatrix.standalone.driving import GameProgram


@pytest.mark.parametrize("command", ["cat", []])
def test_a_command_that_is_no_list_of_words_is_refused(command: str | list[str]) -> None:
    with pytest.raises(UserError, match=r"must be a list of words, such as .*, not "):
        GameProgram(command)


def test_a_command_to_a_program_that_has_exited_is_refused() -> None:
    with GameProgram(["cat"]) as program:
        pass
    with pytest.raises(UserError, match="the game program has exited"):
        program.ask("reset")


def test_a_program_that_does_not_end_by_itself_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "_PATIENCE", 0.1)
    began = time.monotonic()
    with GameProgram(["sleep", "40"]):
        pass
    assert time.monotonic() - began < 20
