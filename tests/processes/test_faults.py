"""If something happens to one of several processes, all end soon and report why."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.processes.pod import LAST_STEP, NO_GAMES, ROOT, Pod, children, wait_until

SUPERVISE = ("bash", str(ROOT / "scripts/supervise.sh"))
HEARTBEAT = 5
SOON = 3 * HEARTBEAT  # on a busy machine


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Pod:
    """An undisturbed run of two processes."""
    with Pod(tmp_path_factory.mktemp("whole"), 2, NO_GAMES, devices=2) as pod:
        assert pod.exit_codes() == [0, 0], pod.output(0)
    return pod


def test_sigterm_to_one_stops_all_and_the_resumed_run_equals_the_undisturbed_one(
    whole: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pod(tmp_path, 2, NO_GAMES, devices=2) as stopped:
        stopped.wait_for_chunks()
        stopped.processes[1].send_signal(signal.SIGTERM)
        assert stopped.exit_codes() == [42, 42], stopped.output(0)
    saved = stopped.steps()[-1]
    assert saved < LAST_STEP
    assert f"Stopped at step {saved:,}, after" in stopped.output(0)
    command = re.search(r"resume +python -m launch.train --resume=(\S+)\n", stopped.output(0))
    assert command, stopped.output(0)
    assert Path(command[1]).name == "run"
    monkeypatch.setenv("JAX_LOG_COMPILES", "1")
    # Only one is told to resume, and that is enough.
    with Pod(tmp_path, 2, NO_GAMES, devices=2, only={0: ["--resume=auto"]}) as resumed:
        assert resumed.exit_codes() == [0, 0], resumed.output(0)
    assert f"Resuming from the checkpoint at step {saved:,}" in resumed.output(0)
    assert resumed.digests() == whole.digests()
    for each in (0, 1):  # their common program was found, as all had cached it
        compiled = re.findall(r"Compiling jit\((\w+)\)", resumed.output(each))
        assert compiled
        assert "chunk" not in compiled


def test_supervisors_finish_a_run_whose_coordinator_was_killed(whole: Pod, tmp_path: Path) -> None:
    with Pod(tmp_path, 2, NO_GAMES, devices=2, program=SUPERVISE) as pod:
        pod.wait_for_chunks()
        (coordinator,) = children(pod.processes[0].pid)
        os.kill(coordinator, signal.SIGKILL)
        killed_at = time.monotonic()
        wait_until(lambda: "the trainer exited 42: restart" in pod.output(1))
        assert time.monotonic() - killed_at < SOON
        assert pod.exit_codes() == [0, 0], pod.output(0)
    assert "a process or the coordinator was lost" in pod.output(1)
    assert "the trainer was killed by SIGKILL: restart" in pod.output(0)
    assert pod.digests() == whole.digests()


def test_when_one_process_is_frozen_the_watchdog_ends_the_other(tmp_path: Path) -> None:
    seconds = 20  # on a busy machine one may start long after the other
    patient = [f"--config.watchdog_minutes={seconds / 60}", "--heartbeat_seconds=100"]
    with Pod(tmp_path, 2, *patient, devices=2) as pod:
        pod.wait_for_chunks()
        os.kill(pod.processes[1].pid, signal.SIGSTOP)
        frozen_at = time.monotonic()
        assert pod.wait(0) == -signal.SIGKILL
        assert time.monotonic() - frozen_at < seconds + SOON
        os.kill(pod.processes[1].pid, signal.SIGCONT)
        assert pod.wait(1) in (42, -signal.SIGKILL)  # the coordinator is gone, and time has passed
    assert f"No chunk of updates was finished for {seconds:g} s" in pod.output(0)
    assert "hackmatrix/train/loop.py" in pod.output(0)


@pytest.mark.slow  # and much like a killed one (test_runs_in_a_bucket.py)
def test_a_process_that_is_frozen_counts_as_lost_after_the_heartbeat(tmp_path: Path) -> None:
    with Pod(tmp_path, 2, devices=2) as pod:
        pod.wait_for_chunks()
        os.kill(pod.processes[1].pid, signal.SIGSTOP)
        frozen_at = time.monotonic()
        assert pod.wait(0) == 42
        assert time.monotonic() - frozen_at < SOON
        os.kill(pod.processes[1].pid, signal.SIGCONT)
        assert pod.wait(1) == 42


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1"])
def test_a_port_that_is_in_use_is_named(tmp_path: Path, address: str) -> None:
    with socket.socket() as other:
        other.bind((address, 0))
        other.listen()
        port = other.getsockname()[1]
        place = f"--coordinator=127.0.0.1:{port}", "--num_processes=2", "--process_id=0"
        with Pod(tmp_path, 1, *place, devices=2) as pod:
            assert pod.exit_codes() == [1]
    assert f"port {port} is in use on this machine" in pod.output(0).splitlines()[-1]


def test_a_process_that_meets_no_others_ends_to_be_restarted(tmp_path: Path) -> None:
    place = "--num_processes=2", "--process_id=1", "--join_seconds=2"
    with Pod(tmp_path, 1, "--coordinator=127.0.0.1:1", *place, devices=2) as pod:
        assert pod.exit_codes() == [42]
    last = pod.output(0).splitlines()[-1]
    assert last == (
        "launch.train: not all processes connected to 127.0.0.1:1 within 2 s: "
        "start all of them together"
    )
