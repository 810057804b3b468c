"""What all tests of PPO look at: compiled and played once."""

from __future__ import annotations

import pytest

from tests.ppo.played import Played, play


@pytest.fixture(scope="session")
def played() -> Played:
    return play(truncates=False)


@pytest.fixture(scope="session")
def cut_off() -> Played:
    """As `played`, but no episode terminates: all are truncated. And values are in units of reward
    from first to last.
    """
    return play(truncates=True, scale_returns=False)
