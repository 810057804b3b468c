"""A session that the tests of a module share: its first turn is slow."""

from __future__ import annotations

import pytest

from hackmatrix.envs.headless import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(1)
