"""Programs that are stopped, or whose output nobody reads, end without a traceback."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.startup import ending

ROOT = Path(__file__).parents[2]

# A little program as the launch programs are.
PROGRAM = """
import signal
from absl import app
from launch.startup import command_line

def main(_):
    print("a line", flush=True)
    {work}

app.run(main, flags_parser=command_line.parser("launch.little"))
"""


def start(work: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.format(work=work)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def stopped(work: str) -> tuple[str, str]:
    """What the program prints by Ctrl-C amid its work, and what it says on standard error."""
    with start(work) as program:
        assert program.stdout
        assert program.stdout.readline() == "a line\n"
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        said, told = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT  # as of any program that Ctrl-C ends
    return said, told.strip()


def test_ctrl_c_is_told_in_one_line() -> None:
    assert stopped("signal.pause()") == ("", "launch.little: stopped")


def test_ctrl_c_while_jax_is_loaded_ends_it_though_its_import_would_swallow_that() -> None:
    loads = """from launch.startup import starting
    with starting.loading("launch.little", "JAX"):
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("it goes on")"""
    said, told = stopped(loads)
    assert said == ""
    assert told.splitlines() == ["launch.little: loading JAX ...", "", "launch.little: stopped"]


def test_ctrl_c_is_left_to_who_heeds_it_and_is_afterwards_what_it_was() -> None:
    with ending.at_once("launch.tea"):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending.at_once("launch.tea"):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_it_before_python_takes_it_apart_and_after_exit_functions() -> None:
    """XLA, stopped amid its work, would crash."""
    apart = "signal.held = type('X', (), {'__del__': lambda _: os.write(2, b'taken apart')})()"
    tidy = "atexit.register(print, 'tidied up')"
    found = stopped(f"import atexit, os; {tidy}; {apart}; signal.pause()")
    assert found == ("tidied up\n", "launch.little: stopped")


def test_at_its_end_nothing_is_looked_through_for_garbage() -> None:
    """All that JAX has traced would be, for up to a second."""
    tells = "lambda _, write=os.write: write(2, b'found')"
    garbage = f"it = type('X', (), {{'__del__': {tells}}})(); it.me = it; del it"
    with start(f"import gc, os; gc.disable(); {garbage}") as program:
        assert program.communicate(timeout=60) == ("a line\n", "")


def test_ctrl_c_ends_it_also_where_python_would_ignore_it() -> None:
    waits = "gc.callbacks.append(lambda *_: gc.callbacks.clear() or signal.pause())"
    found = stopped(f"import gc; {waits}; gc.collect(); print('it goes on')")
    assert found == ("", "launch.little: stopped")


@pytest.mark.parametrize(
    "work", ["for _ in range(10**6): print('a board')", "signal.sigtimedwait([], 1); print('more')"]
)
def test_what_nobody_reads_any_more_is_no_mistake(work: str) -> None:
    with start(work) as program:
        assert program.stdout
        assert program.stderr
        assert program.stdout.readline() == "a line\n"
        program.stdout.close()
        assert program.stderr.read() == ""


@pytest.mark.parametrize("code", [0, 1, 42])
def test_where_nothing_can_be_written_the_exit_code_is_what_it_would_be(code: int) -> None:
    """As on a full disk, or where a terminal was closed."""
    ends = f"from hackmatrix.parallel import startup; print('more'); startup.exit_together({code})"
    program = PROGRAM.format(work=ends).replace(", flush=True", "")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=full, stderr=full)
    assert done.returncode == code


def test_what_was_asked_for_and_does_not_fit_on_the_disk_is_a_failure() -> None:
    program = PROGRAM.format(work="print('a result')").replace(", flush=True", "")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode != 0
    assert "No space left on device" in done.stderr


def test_what_is_said_where_standard_error_is_closed_is_no_part_of_the_output() -> None:
    says = "import sys; print('a notice', file=sys.stderr); sys.stderr.fileno()"
    command = shlex.join([sys.executable, "-c", PROGRAM.format(work=says)])
    done = subprocess.run(
        f"{command} 2>&-", shell=True, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a line\n"


def test_a_mistake_of_ours_is_a_traceback() -> None:
    with start("1 / 0") as program:
        _, told = program.communicate(timeout=60)
    assert told.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert program.returncode == 1
