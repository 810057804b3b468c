from pathlib import Path

import pytest

from tests.scripts.stubs import Stubs, make_checkout


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    return Stubs(tmp_path)


@pytest.fixture
def checkout(stubs: Stubs) -> Path:
    return make_checkout(stubs)
