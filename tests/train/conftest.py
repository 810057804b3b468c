"""The default configuration, from which tests build runs, sinks and consoles."""

import pytest

from hackmatrix.train.config import Config
from tests.train.settings import resolved


@pytest.fixture
def config() -> Config:
    return resolved()
