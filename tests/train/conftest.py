"""A configuration to build runs, sinks and consoles from."""

import pytest

from hackmatrix.train.config import Config
from tests.train.settings import resolved


@pytest.fixture
def config() -> Config:
    return resolved()
