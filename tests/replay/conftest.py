"""A recorded episode, which most tests of replays show."""

from __future__ import annotations

import pytest

from hackmatrix.replay.record import Episode
from tests.replay.wanderer import wander


@pytest.fixture(scope="session")
def episode() -> Episode:
    return wander("a <game>", 5)
