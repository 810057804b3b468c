"""Checkpoints in a bucket work as on a disk, despite the faults of a network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import jax.numpy as jnp
import pytest

from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from hackmatrix.train.checkpoints.saving import Saving
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import Unavailable
from tests.bucket_service import Service
from tests.train.checkpoints.small_state import bits, like, on, state

KILLED_WHILE_SAVING = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp
from hackmatrix.train.checkpoints.checkpoints import Checkpoints
from hackmatrix.train.runs.places import place

there = place(sys.argv[1])
checkpoints = Checkpoints(there, keep=3)
checkpoints.save(2, {"leaf": jax.random.bits(jax.random.key(0), (1 << 24,), jnp.uint32)}, {})
while not (there / "2").exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(checkpoints._directory.names())


def test_a_state_is_restored_bit_for_bit_on_another_mesh(in_bucket: Checkpoints) -> None:
    in_bucket.save(1, state(on(8), seed=1), {"update": 1})
    in_bucket.save(2, state(on(8), seed=2), {"update": 2})
    in_bucket.wait()
    restored = Checkpoints(in_bucket._directory, keep=3).restore_newest(Layout(like(on(2))))
    assert restored is not None
    assert (restored.step, restored.metadata) == (2, {"update": 2})
    assert bits(restored.state) == bits(state(on(2), seed=2))


def test_the_newest_the_best_and_milestones_are_kept(bucket_address: str) -> None:
    checkpoints = Checkpoints(place(bucket_address), keep=1, milestones=2)
    for step in (3, 6, 12, 15, 21):
        checkpoints.save(step, {"leaf": jnp.uint32(step)}, {"score": 9.0} if step == 6 else {})
    checkpoints.wait()
    assert checkpoints.steps() == [6, 12, 21]


def test_checkpoints_later_than_the_saved_step_are_put_aside(
    in_bucket: Checkpoints, messages: list[str]
) -> None:
    for step in (1, 5):
        in_bucket.save(step, {"leaf": jnp.uint32(step)}, {})
    in_bucket.save(3, {"leaf": jnp.uint32(3)}, {})
    in_bucket.wait()
    assert names(in_bucket) == ["1", "3", "5.aside-1"]
    assert messages == [f"{in_bucket._directory / '5'} was renamed to 5.aside-1"]


def test_a_checkpoint_whose_process_was_killed_during_the_save_is_not_used(
    in_bucket: Checkpoints, messages: list[str]
) -> None:
    in_bucket.save(1, state(on(1)), {})
    in_bucket.wait()
    child = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(in_bucket._directory)],
        env=os.environ | {"XLA_FLAGS": ""},
        timeout=120,
    )
    assert child.returncode == -signal.SIGKILL
    assert names(in_bucket) == ["1", "2"]
    assert in_bucket.steps() == [1]
    restored = in_bucket.restore_newest(Layout(like(on(1))))
    assert restored is not None
    assert restored.step == 1
    assert messages == [
        f"{in_bucket._directory / '2'} is unfinished or still being written: trying an older one"
    ]
    in_bucket.save(3, restored.state, {})
    in_bucket.wait()
    assert names(in_bucket) == ["1", "3"]


@pytest.mark.usefixtures("retries_without_waiting")
@pytest.mark.parametrize("fault", ["third", "slow"])
def test_saving_and_restoring_survive_a_bad_connection(
    in_bucket: Checkpoints, messages: list[str], bucket_service: Service, fault: str
) -> None:
    with bucket_service.failing(fault):
        in_bucket.save(1, state(on(1), seed=1), {})
        in_bucket.wait()
        restored = in_bucket.restore_newest(Layout(like(on(1))))
    assert messages == []
    assert restored is not None
    assert bits(restored.state) == bits(state(on(1), seed=1))


def test_a_save_to_a_missing_bucket_is_reported_and_another_bucket_still_works(
    in_bucket: Checkpoints, messages: list[str]
) -> None:
    nowhere = Checkpoints(place("gs://nobody/run"), keep=3, say=messages.append)
    nowhere.save(1, {"leaf": jnp.uint32(1)}, {})
    nowhere.wait()
    assert [line.partition(":")[0] for line in messages] == ["gs"]
    assert "1 is not saved: " in messages[0]
    in_bucket.save(2, {"leaf": jnp.uint32(2)}, {})
    in_bucket.wait()
    assert in_bucket.steps() == [2]


@pytest.mark.usefixtures("retries_without_waiting")
def test_a_bucket_that_fails_as_a_save_begins_costs_that_checkpoint_and_not_the_run(
    in_bucket: Checkpoints,
    messages: list[str],
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare, leaf = Checkpoints._prepare, {"leaf": jnp.uint32(1)}

    def prepare_and_disconnect(self: Checkpoints, step: int) -> tuple[str | None, list[int]]:
        prepared = prepare(self, step)
        bucket_service.fault = "refuse"
        return prepared

    in_bucket.save(1, leaf, {})
    in_bucket.wait()
    with bucket_service.failing("slow"), monkeypatch.context() as meanwhile:
        meanwhile.setattr(Checkpoints, "_prepare", prepare_and_disconnect)
        in_bucket.save(2, leaf, {})
        in_bucket.wait()
        assert in_bucket.saved != 2
    assert [line.partition(" is not saved: ")[0] for line in messages] == [
        f"{in_bucket._directory / '2'}"
    ]
    in_bucket.save(3, leaf, {})
    in_bucket.wait()
    assert in_bucket.saved == 3
    assert in_bucket.steps() == [1, 3]


@pytest.mark.usefixtures("retries_without_waiting")
def test_an_outage_of_the_bucket_costs_the_checkpoints_of_that_time_and_no_others(
    bucket_address: str,
    messages: list[str],
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finish = Saving.finish

    def cut_off(self: Saving) -> None:
        finish(self)
        raise OSError("the last request was lost")

    checkpoints = Checkpoints(place(bucket_address), keep=1, say=messages.append)
    leaf = {"leaf": jnp.uint32(1)}
    checkpoints.save(1, leaf, {"score": 9.0})
    checkpoints.save(2, leaf, {"score": 1.0})
    checkpoints.wait()
    checkpoints.save(3, leaf, {})
    monkeypatch.setattr(Saving, "finish", cut_off)
    with bucket_service.failing("refuse"):
        checkpoints.wait()
        assert checkpoints.saved != 3
        checkpoints.save(4, leaf, {})
        checkpoints.wait()
        assert checkpoints.saved != 4
        with pytest.raises(Unavailable):  # instead of None, for no best checkpoint
            checkpoints.best()
    monkeypatch.undo()
    not_saved = [line.partition(" is not saved")[0] for line in messages]
    assert not_saved == [f"{bucket_address}/{step}" for step in (3, 4)]
    checkpoints.save(5, leaf, {})
    checkpoints.wait()
    assert checkpoints.saved == 5
    assert checkpoints.steps() == [1, 5]


@pytest.mark.usefixtures("retries_without_waiting")
def test_a_checkpoint_in_an_unreachable_bucket_is_not_reported_as_damaged(
    in_bucket: Checkpoints,
    messages: list[str],
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_bucket.save(1, state(on(1)), {})
    in_bucket.wait()
    load = in_bucket._load_once

    def cut_off(then: str | None) -> None:
        """Makes the next read of arrays fail, and leaves the bucket with the fault `then`."""

        def fails(step: int, wanted: Any) -> Any:
            monkeypatch.setattr(in_bucket, "_load_once", load)
            bucket_service.fault = then
            raise ValueError("another library has lost its connection")

        monkeypatch.setattr(in_bucket, "_load_once", fails)

    cut_off(then="refuse")
    with pytest.raises(Unavailable):
        in_bucket.restore_newest(Layout(like(on(1))))
    bucket_service.fault = None
    cut_off(then=None)
    restored = in_bucket.restore_newest(Layout(like(on(1))))
    assert restored is not None
    assert restored.step == 1
    assert messages == []


@pytest.mark.usefixtures("retries_without_waiting")
def test_a_checkpoint_whose_arrays_are_refused_is_not_reported_as_damaged(
    in_bucket: Checkpoints,
    messages: list[str],
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrays are read by tensorstore, whose credentials may be refused when others are accepted."""
    in_bucket.save(1, state(on(1)), {})
    in_bucket.wait()

    def refuse_tensorstore(request: str) -> str | None:
        return "forbid" if "tensorstore=" in request else None

    monkeypatch.setattr(bucket_service, "fault_of", refuse_tensorstore)
    with pytest.raises(Unavailable, match=r"^PERMISSION_DENIED: Error reading gs://.*: Forbidden$"):
        in_bucket.restore_newest(Layout(like(on(1))))
    assert in_bucket.steps() == [1]
    assert messages == []
