"""What tests of playing look at: compiled and played once."""

from __future__ import annotations

import pytest

from tests.rl.rolled import Rolled, roll


@pytest.fixture(scope="session")
def rolled() -> Rolled:
    return roll(truncates=False)


@pytest.fixture(scope="session")
def cut_off() -> Rolled:
    """As `rolled`, but no episode terminates: all are truncated."""
    return roll(truncates=True)
