"""Rollouts that several tests look at: compiled and played once."""

from __future__ import annotations

import pytest

from tests.rl.rolled import Rollout, collect_rollout


@pytest.fixture(scope="session")
def toy_rollout() -> Rollout:
    return collect_rollout(truncates=False)


@pytest.fixture(scope="session")
def truncated_rollout() -> Rollout:
    """Like `toy_rollout`, but all episodes are truncated and none terminates."""
    return collect_rollout(truncates=True)
