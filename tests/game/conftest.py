"""The game under test, shared by all tests: compiling its step takes longer than the tests."""

import pytest
from golden import Case, folder, read_cases
from steps import Programs, compiled_programs
from subject import JaxGame

from hackmatrix import game
from hackmatrix.game.state import HISTORY_DEPTH


@pytest.fixture(scope="session")
def subject(programs: Programs) -> JaxGame:
    return JaxGame(game, HISTORY_DEPTH, programs.step)


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    return read_cases(folder())


@pytest.fixture(scope="session")
def programs() -> Programs:
    return compiled_programs()
