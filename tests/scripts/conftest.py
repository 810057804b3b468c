from pathlib import Path

import pytest

from tests.scripts.stubs import Stubs, make_checkout
from tests.scripts.world import SLICE, World


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    return Stubs(tmp_path)


@pytest.fixture
def checkout(stubs: Stubs) -> Path:
    return make_checkout(stubs)


@pytest.fixture
def pod(stubs: Stubs, tmp_path: Path) -> Path:
    """The directory with the home directories of two workers, which the fake gcloud reaches."""
    stubs.add("gcloud", SLICE.format(slice=tmp_path / "pod"))
    return tmp_path / "pod"


@pytest.fixture
def world(stubs: Stubs, checkout: Path, tmp_path: Path) -> World:
    return World(stubs, checkout, tmp_path / "world")
