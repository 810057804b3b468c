"""Updates of PPO that several tests look at: compiled and played once."""

from __future__ import annotations

import pytest

from tests.ppo.played import Played, play


@pytest.fixture(scope="session")
def played() -> Played:
    return play(truncates=False)


@pytest.fixture(scope="session")
def truncated() -> Played:
    """Like `played`, but all episodes are truncated, none terminates, and the return scale is not
    updated.
    """
    return play(truncates=True, scale_returns=False)
