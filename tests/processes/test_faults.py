"""Several processes, and what may happen to one of them: all end, soon, and say why."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.processes.pod import ROOT, Pod, children

SUPERVISE = ("bash", str(ROOT / "scripts/supervise.sh"))
HEARTBEAT = 5
SOON = 3 * HEARTBEAT  # on a busy machine


def test_a_process_whose_coordinator_is_killed_ends_to_be_started_again(tmp_path: Path) -> None:
    with Pod(tmp_path, 2, devices=2) as pod:
        pod.trains()
        pod.processes[0].kill()
        killed_at = time.monotonic()
        assert pod.wait(1) == 42
        assert time.monotonic() - killed_at < SOON
    assert "a process or the coordinator is lost" in pod.said(1)


@pytest.mark.slow
def test_supervisors_bring_a_run_to_its_end_of_which_a_process_was_killed(tmp_path: Path) -> None:
    with Pod(tmp_path / "whole", 2, devices=2) as whole:
        assert whole.codes() == [0, 0], whole.said(0)
    with Pod(tmp_path / "killed", 2, devices=2, program=SUPERVISE) as pod:
        pod.trains()
        (trainer,) = children(pod.processes[1].pid)
        os.kill(trainer, signal.SIGKILL)
        assert pod.codes() == [0, 0], pod.said(0)
    assert "a process or the coordinator is lost" in pod.said(0)
    assert "the trainer exited 42: restart 1" in pod.said(0)
    assert "the trainer was killed by SIGKILL: restart 1" in pod.said(1)
    assert pod.digests() == whole.digests()


@pytest.mark.slow
def test_where_one_process_is_frozen_the_watchdog_ends_the_other(tmp_path: Path) -> None:
    seconds = 20
    patient = [f"--config.watchdog_minutes={seconds / 60}", "--heartbeat_seconds=100"]
    with Pod(tmp_path, 2, *patient, devices=2) as pod:
        pod.trains()
        os.kill(pod.processes[1].pid, signal.SIGSTOP)
        frozen_at = time.monotonic()
        assert pod.wait(0) == -signal.SIGKILL
        assert time.monotonic() - frozen_at < seconds + SOON
        os.kill(pod.processes[1].pid, signal.SIGCONT)
        assert pod.wait(1) in (42, -signal.SIGKILL)  # the coordinator is gone, and time has passed
    assert f"No chunk of updates was finished for {seconds:g} s" in pod.said(0)
    assert "hackmatrix/train/loop.py" in pod.said(0)


@pytest.mark.slow
def test_a_process_that_is_frozen_counts_as_lost_after_the_heartbeat(tmp_path: Path) -> None:
    with Pod(tmp_path, 2, devices=2) as pod:
        pod.trains()
        os.kill(pod.processes[1].pid, signal.SIGSTOP)
        frozen_at = time.monotonic()
        assert pod.wait(0) == 42
        assert time.monotonic() - frozen_at < SOON
        os.kill(pod.processes[1].pid, signal.SIGCONT)
        assert pod.wait(1) == 42


def test_a_process_with_another_configuration_is_named_before_anything_is_done(
    tmp_path: Path,
) -> None:
    with Pod(tmp_path, 2, devices=2, only={1: ["--config.gamma=0.9"]}) as pod:
        assert pod.codes() == [1, 1]
    for each in (0, 1):
        assert "process 1 has gamma = 0.9, the others have 0.99" in pod.said(each).splitlines()[-1]
    assert not pod.run.exists()


def test_a_mistake_on_one_process_ends_all(tmp_path: Path) -> None:
    with Pod(tmp_path, 2, devices=2, only={1: ["--config.clip_eps=7.0"]}) as pod:
        assert pod.codes() == [1, 1]
    assert "process 1: clip_eps=7.0 must be a number between 0 and 1" in pod.said(0)
    assert "launch.train: clip_eps=7.0 must be a number between 0 and 1" in pod.said(1)


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1"])
def test_a_port_that_is_taken_is_named(tmp_path: Path, address: str) -> None:
    with socket.socket() as other:
        other.bind((address, 0))
        other.listen()
        port = other.getsockname()[1]
        place = f"--coordinator=127.0.0.1:{port}", "--num_processes=2", "--process_id=0"
        with Pod(tmp_path, 1, *place, devices=2) as pod:
            assert pod.codes() == [1]
    assert f"port {port} is taken on this machine" in pod.said(0).splitlines()[-1]


def test_a_process_that_meets_nobody_ends_to_be_started_again(tmp_path: Path) -> None:
    place = "--num_processes=2", "--process_id=1", "--join_seconds=2"
    with Pod(tmp_path, 1, "--coordinator=127.0.0.1:1", *place, devices=2) as pod:
        assert pod.codes() == [42]
    last = pod.said(0).splitlines()[-1]
    assert last == "launch.train: not all processes have met at 127.0.0.1:1 in 2 s"
