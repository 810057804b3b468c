"""A configuration to build runs, sinks and consoles from."""

import pytest

from configs import default
from hackmatrix.train.config import Config, resolve


@pytest.fixture
def config() -> Config:
    return resolve(default.get_config(), "cpu", 1)
