"""A session to ask: its first turn is the slow one."""

from __future__ import annotations

import pytest

from hackmatrix.envs.headless import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(1)
