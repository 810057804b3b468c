"""What all tests of PPO look at: compiled and played once."""

from __future__ import annotations

import pytest

from tests.ppo.played import Played, play


@pytest.fixture(scope="session")
def played() -> Played:
    return play(truncates=False)


@pytest.fixture(scope="session")
def cut_off() -> Played:
    """As `played`, but no episode terminates: all are truncated."""
    return play(truncates=True)
