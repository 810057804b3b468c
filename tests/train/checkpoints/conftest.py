"""Checkpoints to write, to read and to damage."""

import shutil
from pathlib import Path

import pytest

from hackmatrix.train.checkpoints.checkpoints import Checkpoints
from hackmatrix.train.runs.places import place
from tests.train.checkpoints.small_state import on, state


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def checkpoints(tmp_path: Path, messages: list[str]) -> Checkpoints:
    return Checkpoints(tmp_path / "run", keep=3, say=messages.append)


@pytest.fixture
def in_bucket(bucket_address: str, messages: list[str]) -> Checkpoints:
    return Checkpoints(place(bucket_address), keep=3, say=messages.append)


@pytest.fixture(scope="session")
def two_saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints 1 and 2, of seeds 1 and 2."""
    directory = tmp_path_factory.mktemp("saved")
    writer = Checkpoints(directory, keep=3)
    for step in (1, 2):
        writer.save(step, state(on(8), seed=step), {"update": step})
    writer.wait()
    return directory


@pytest.fixture
def two(two_saved: Path, tmp_path: Path) -> Path:
    """A copy of checkpoints 1 and 2, to damage."""
    return Path(shutil.copytree(two_saved, tmp_path / "run"))
