"""Signals and the watchdog in real processes, which are busy or hang."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hackmatrix.train.guards import watchdog
from hackmatrix.train.guards.supervision import NOTES, of_environment

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("supervised_process.py")
SECONDS = 30
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program, and returns it once it reports that it is in the given phase."""
    processes: list[subprocess.Popen[str]] = []

    def started(phase: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), phase, str(tmp_path / "made")],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"])),
            },
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    yield started
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_there_is_anything_to_save_ends_and_undoes_the_run_at_once(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    process = start("before")
    assert (tmp_path / "made").is_dir()
    process.send_signal(number)
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 42
    assert (output, errors) == ("", "Nothing to save\n")
    assert not (tmp_path / "made").exists()


def test_a_signal_ends_the_process_even_if_its_directory_cannot_be_removed(
    start: Start, tmp_path: Path
) -> None:
    process = start("before")
    (tmp_path / "made/file").touch()
    process.terminate()
    _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (42, "Nothing to save\n")


def test_a_signal_ends_the_process_even_if_its_stderr_is_closed(start: Start) -> None:
    process = start("before")
    assert process.stderr
    process.stderr.close()
    process.terminate()
    assert process.wait(SECONDS) == 42


def test_a_second_ctrl_c_ends_a_busy_process_at_once(start: Start) -> None:
    process = start("within")
    process.send_signal(signal.SIGINT)
    assert process.stdout
    assert process.stdout.readline().startswith("SIGINT: saving and stopping;")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 42
    assert (output, errors) == ("", "Stopped without saving; any earlier checkpoints remain\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_arrives_again_through_the_supervisor_asks_only_once(
    start: Start, number: signal.Signals
) -> None:
    """As from a machine that signals both, or from a terminal that is closed with its shell."""
    process = start("after")
    for _ in range(2):
        process.send_signal(number)
        time.sleep(0.1)
    output, errors = process.communicate("\n", timeout=SECONDS)
    first, *rest = output.splitlines()
    assert first.startswith(f"{number.name}: saving and stopping;")
    assert (process.returncode, rest, errors) == (42, ["saved"], "")


def test_a_process_started_with_nohup_outlives_its_terminal(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which its children inherit
    try:
        process = start("after")
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    process.terminate()
    output, _ = process.communicate("\n", timeout=SECONDS)
    assert output.startswith("SIGTERM: saving and stopping;")


def test_a_process_that_has_done_its_work_is_not_killed_while_python_exits(start: Start) -> None:
    process = start("leaving")
    process.terminate()
    output, errors = process.communicate("\n", timeout=SECONDS)
    assert (process.returncode, output, errors) == (0, "gone\n", "")


def test_the_time_in_which_a_process_is_suspended_does_not_count_as_hanging(start: Start) -> None:
    process = start("hanging")
    process.send_signal(signal.SIGSTOP)
    assert process.stdin
    process.stdin.write("\n")  # now, because a busy machine may delay this process later
    process.stdin.flush()
    time.sleep(7)
    process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=SECONDS)
    assert output == "awake\n"
    assert process.returncode == -signal.SIGKILL  # because it did hang afterwards
    assert errors.startswith("No tea was made for 5 s (watchdog_minutes): this process ends;")
    assert f'"{PROGRAM}"' in errors


def test_a_process_that_hangs_is_ended_even_if_its_stderr_is_closed(start: Start) -> None:
    process = start("unheard")
    assert process.stderr
    process.stderr.close()
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.close()
    assert process.wait(SECONDS) == -signal.SIGKILL


@pytest.mark.parametrize("line", range(2, 10))
def test_a_process_may_be_suspended_between_any_two_lines_of_the_watchdog(
    line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is read once after each line, and an hour passes before one of these reads."""
    reads = itertools.count(1)
    times = itertools.accumulate(3600 if read == line else 0.05 for read in reads)
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: next(times))
    watched = watchdog.Watchdog()
    watched.arm("No tea was made", 1.0)
    turns = iter(range(6))

    def wait(_: float) -> None:
        if next(turns, None) is None:
            raise TimeoutError("it was watched for long enough")

    monkeypatch.setattr(watched._changed, "wait", wait)
    monkeypatch.setattr(watched, "_end", lambda: pytest.fail("it was ended"))
    with pytest.raises(TimeoutError):
        watched._watch()


def test_a_process_may_be_suspended_before_the_watchdog_hears_of_its_next_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It still has the timeout of the previous phase when it is suspended for 7 s."""
    now = 0.0
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now)
    watched = watchdog.Watchdog()
    turns = iter(range(20))

    def wait(tick: float) -> None:
        nonlocal now
        turn = next(turns, None)
        if turn is None:
            raise TimeoutError("it was watched for long enough")
        if turn == 0:
            watched.arm("No tea was made", 5.0)
        now += 7 if turn == 0 else tick / 10

    monkeypatch.setattr(watched._changed, "wait", wait)
    monkeypatch.setattr(watched, "_end", lambda: pytest.fail("it was ended"))
    with pytest.raises(TimeoutError):
        watched._watch()


def test_the_supervisor_finds_the_run_and_its_step_until_it_is_forgotten(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    supervision = of_environment({NOTES: str(notes)})
    supervision.note("runs/a")
    assert notes.read_text() == "runs/a\n\n"
    supervision.note("runs/a", 4096)
    assert notes.read_text() == "runs/a\n4096\n"
    supervision.forget()
    assert notes.read_text() == ""
