"""Checkpoints of two processes with four devices each, over real sockets, and of a single one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from tests.train import pair
from tests.train.checkpoints.small_state import bits, like, on, state

PROGRAM = Path(__file__).with_name("saving_process.py")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contains from_one/, saved by one process on one device; its newest checkpoint is damaged."""
    root = tmp_path_factory.mktemp("processes")
    writer = Checkpoints(root / "from_one", keep=3)
    for step in (1, 2):
        writer.save(step, state(on(1), seed=step), {})
    writer.wait()
    shutil.rmtree(root / "from_one/2/state")
    return root


@pytest.fixture(scope="module")
def results(directory: Path) -> list[dict[str, Any]]:
    """The results of both processes, after they have saved to from_two/."""
    return pair.results(PROGRAM, directory)


def test_values_are_gathered_and_broadcast_between_processes(results: list[dict[str, Any]]) -> None:
    for each in results:
        assert each["gathered"] == [{"process": 0}, {"process": 1}]
        assert each["broadcast"] == 0


def test_two_processes_restore_what_one_saved_and_skip_a_damaged_checkpoint(
    directory: Path, results: list[dict[str, Any]]
) -> None:
    for each in results:
        assert each["restored"] == 1
        assert each["equal"]
        assert f"{directory / 'from_one/2'} is damaged" in each["messages"][0]


def test_if_one_process_cannot_write_all_continue_and_save_again_later(
    directory: Path, results: list[dict[str, Any]]
) -> None:
    for each in results:
        assert each["messages"][1] == f"{directory / 'from_two/2'} is not saved: File too large"
        assert each["steps"] == [3, 4]


def test_if_one_process_alone_cannot_reach_the_bucket_all_continue(
    directory: Path, results: list[dict[str, Any]]
) -> None:
    for each in results:
        assert each["messages"][2:] == [
            f"{directory / 'from_two/5'} is not saved: the bucket is away"
        ]


def test_processes_that_cannot_begin_to_save_raise_an_error_and_do_not_wait(
    results: list[dict[str, Any]],
) -> None:
    for each in results:
        assert each["error"] == "could not begin to save checkpoint 6: the bucket is away"


def test_what_the_first_process_cannot_read_is_an_error_on_all(
    results: list[dict[str, Any]],
) -> None:
    for each in results:
        assert each["unreadable"] == [False, "Permission denied"]


def test_one_process_restores_what_two_saved(
    directory: Path, results: list[dict[str, Any]]
) -> None:
    restored = Checkpoints(directory / "from_two", keep=3).restore_newest(Layout(like(on(1))))
    assert restored is not None
    assert (restored.step, restored.metadata) == (4, {"update": 4})
    assert bits(restored.state) == bits(state(on(1), seed=4))
