"""Signals and the watchdog, in real processes: what they do to one that is busy or hangs."""

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
    """The program at one of its phases; it is there when it has said so."""
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
def test_where_nothing_is_to_be_saved_a_signal_ends_it_at_once_and_without_a_trace(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    process = start("before")
    assert (tmp_path / "made").is_dir()
    process.send_signal(number)
    told, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 42
    assert (told, errors) == ("", "Nothing to save\n")
    assert not (tmp_path / "made").exists()


def test_a_signal_ends_it_also_where_its_traces_cannot_be_removed(
    start: Start, tmp_path: Path
) -> None:
    process = start("before")
    (tmp_path / "made/file").touch()
    process.terminate()
    _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (42, "Nothing to save\n")


def test_a_signal_ends_it_also_where_nobody_listens(start: Start) -> None:
    process = start("before")
    assert process.stderr
    process.stderr.close()
    process.terminate()
    assert process.wait(SECONDS) == 42


def test_a_second_ctrl_c_ends_it_at_once_although_it_is_busy(start: Start) -> None:
    process = start("within")
    process.send_signal(signal.SIGINT)
    assert process.stdout
    assert process.stdout.readline().startswith("SIGINT: saving and stopping;")
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 42
    assert (told, errors) == ("", "Stopped without saving; earlier checkpoints remain\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_machine_that_signals_a_program_and_its_supervisor_asks_once(
    start: Start, number: signal.Signals
) -> None:
    """And a terminal that is closed, with the shell in it."""
    process = start("after")
    for _ in range(2):
        process.send_signal(number)
        time.sleep(0.1)
    told, errors = process.communicate("\n", timeout=SECONDS)
    first, *rest = told.splitlines()
    assert first.startswith(f"{number.name}: saving and stopping;")
    assert (process.returncode, rest, errors) == (42, ["saved"], "")


def test_one_that_nohup_has_started_outlives_its_terminal(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which its children inherit
    try:
        process = start("after")
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    process.terminate()
    told, _ = process.communicate("\n", timeout=SECONDS)
    assert told.startswith("SIGTERM: saving and stopping;")


def test_one_that_has_done_its_work_is_not_killed_while_python_ends(start: Start) -> None:
    process = start("leaving")
    process.terminate()
    told, errors = process.communicate("\n", timeout=SECONDS)
    assert (process.returncode, told, errors) == (0, "gone\n", "")


def test_time_in_which_it_is_suspended_is_no_time_in_which_it_hangs(start: Start) -> None:
    process = start("hanging")
    process.send_signal(signal.SIGSTOP)
    assert process.stdin
    process.stdin.write("\n")  # now, as on a busy machine this process may be kept waiting later
    process.stdin.flush()
    time.sleep(7)
    process.send_signal(signal.SIGCONT)
    told, errors = process.communicate(timeout=SECONDS)
    assert told == "awake\n"
    assert process.returncode == -signal.SIGKILL  # as it did hang afterwards
    assert errors.startswith("No tea was made for 5 s (watchdog_minutes): this process ends;")
    assert f'"{PROGRAM}"' in errors


def test_one_that_hangs_is_ended_also_where_nobody_listens(start: Start) -> None:
    process = start("unheard")
    assert process.stderr
    process.stderr.close()
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.close()
    assert process.wait(SECONDS) == -signal.SIGKILL


@pytest.mark.parametrize("line", range(2, 10))
def test_it_may_be_suspended_between_any_two_lines_of_the_watchdog(
    line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is looked at once after each of them, and an hour passes before one of these times."""
    looks = itertools.count(1)
    times = itertools.accumulate(3600 if look == line else 0.05 for look in looks)
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


def test_it_may_be_suspended_before_the_watchdog_hears_that_something_else_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It still waits as long as for what came before, when it is suspended for 7 s."""
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
