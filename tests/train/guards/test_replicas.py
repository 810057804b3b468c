"""The check that all devices have the same parameters."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import jax
import numpy as np
import pytest

from hackmatrix.parallel import mesh as meshes
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.guards.replicas import Diverged, check
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.loop import train
from hackmatrix.train.runs.schedule import Schedule
from tests.train.settings import resolved

ROOT = Path(__file__).parents[3]
MESH = meshes.over()


def tree(odd: dict[int, float]) -> Any:
    """Two leaves marked as replicated; the second one has other values on the devices in `odd`."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    same = meshes.replicated(MESH)
    copies = [
        jax.device_put(values + odd.get(number, 0), device)
        for number, device in enumerate(MESH.devices.flat)
    ]
    second = jax.make_array_from_single_device_arrays(values.shape, same, copies)
    return {"a": meshes.placed(values, same), "b": {"kernel": second}}


def test_identical_replicas_pass() -> None:
    check(tree({}), MESH)


@pytest.mark.parametrize("device", [0, 5])
def test_the_first_leaf_that_differs_and_the_device_are_named(device: int) -> None:
    with pytest.raises(Diverged, match=rf"^b/kernel is not the same .*: \S+{device} differ"):
        check(tree({device: 1e-6}), MESH)


def test_replicas_are_compared_after_each_chunk_in_which_a_comparison_is_due() -> None:
    guard = Guard(Schedule(resolved(replica_check_interval=20)), MESH, Supervision())
    ends = (15, 30, 45, 60, 75)
    due = [update for update in ends if guard.is_comparison_due(update, 15)]
    assert due == [30, 45, 60]  # 20, 40 and 60 are among them


@pytest.mark.parametrize("chunks", [[1, 0], [0]], ids=["when it is time", "at the end"])
def test_a_state_that_differs_between_devices_is_not_saved(chunks: list[int]) -> None:
    guard, checkpointer, program, evaluator = Mock(), Mock(), Mock(), Mock()
    guard.next_chunk.side_effect = chunks
    schedule = Schedule(resolved())
    real = Guard(schedule, MESH, Supervision())
    guard.compare_now.side_effect = lambda _: real.compare_now(tree({5: 1e-6}))
    state: Any = Mock()
    state.learner.update = 1
    program.run.return_value = state, Mock()
    checkpointer.schedule, evaluator.is_due.return_value = schedule, False
    with pytest.raises(Diverged):
        train(state, program, guard, MagicMock(), evaluator, checkpointer)
    checkpointer.save.assert_not_called()


DIVERGES = """
import sys
from launch import train
from hackmatrix.train import session
from hackmatrix.train.guards.replicas import Diverged

def diverges(*_):
    raise Diverged("a device differs")

session.run_session = diverges
train.parser(train.PROGRAM)(sys.argv)
train.main(["launch.train"])
"""


def test_a_run_whose_devices_differ_exits_with_the_code_to_start_it_again() -> None:
    """A bit may have flipped by chance, and earlier checkpoints were compared before the save."""
    ended = subprocess.run(
        [sys.executable, "-c", DIVERGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 42, ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last == "launch.train: a device differs"
