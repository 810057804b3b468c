"""Programs that are stopped, or whose output nobody reads, end without a traceback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.startup import ending

ROOT = Path(__file__).parents[2]

# A small program that is built like the launch programs.
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


def interrupted(work: str) -> tuple[str, str]:
    """Presses Ctrl-C amid the work; returns the program's output and standard error."""
    with start(work) as program:
        assert program.stdout
        assert program.stdout.readline() == "a line\n"
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        printed, errors = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT  # as of any program that Ctrl-C ends
    return printed, errors.strip()


def test_ctrl_c_prints_one_line() -> None:
    assert interrupted("signal.pause()") == ("", "launch.little: stopped")


def test_ctrl_c_while_a_program_is_imported_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "absl.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, "-m", "launch.watch"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_ends_a_program_although_the_import_of_jax_would_swallow_it() -> None:
    code = """from launch.startup import starting
    with starting.loading("launch.little", "JAX"):
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("it goes on")"""
    printed, errors = interrupted(code)
    assert printed == ""
    assert errors.splitlines() == ["launch.little: loading JAX ...", "", "launch.little: stopped"]


def test_the_handler_of_ctrl_c_is_restored_and_an_ignored_ctrl_c_stays_ignored() -> None:
    with ending.at_once("launch.tea"):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending.at_once("launch.tea"):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_program_after_exit_functions_and_before_its_objects_are_freed() -> None:
    """XLA would crash if its objects were freed amid its work."""
    apart = "signal.held = type('X', (), {'__del__': lambda _: os.write(2, b'taken apart')})()"
    tidy = "atexit.register(print, 'tidied up')"
    outcome = interrupted(f"import atexit, os; {tidy}; {apart}; signal.pause()")
    assert outcome == ("tidied up\n", "launch.little: stopped")


def test_no_garbage_is_collected_at_exit() -> None:
    """To look through all that JAX has traced would take up to a second."""
    tells = "lambda _, write=os.write: write(2, b'found')"
    garbage = f"it = type('X', (), {{'__del__': {tells}}})(); it.me = it; del it"
    with start(f"import gc, os; gc.disable(); {garbage}") as program:
        assert program.communicate(timeout=60) == ("a line\n", "")


def test_ctrl_c_ends_a_program_even_where_python_would_ignore_it() -> None:
    waits = "gc.callbacks.append(lambda *_: gc.callbacks.clear() or signal.pause())"
    outcome = interrupted(f"import gc; {waits}; gc.collect(); print('it goes on')")
    assert outcome == ("", "launch.little: stopped")


@pytest.mark.parametrize(
    "work", ["for _ in range(10**6): print('a board')", "signal.sigtimedwait([], 1); print('more')"]
)
def test_output_that_nobody_reads_any_more_is_no_error(work: str) -> None:
    with start(work) as program:
        assert program.stdout
        assert program.stderr
        assert program.stdout.readline() == "a line\n"
        program.stdout.close()
        assert program.stderr.read() == ""


@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_exit_code_stays_the_same_if_nothing_can_be_written(code: int) -> None:
    """For example on a full disk, or after a terminal was closed."""
    ends = f"from hackmatrix.parallel import startup; print('more'); startup.exit_together({code})"
    program = PROGRAM.format(work=ends).replace(", flush=True", "")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=full, stderr=full)
    assert done.returncode == code


def test_progress_that_does_not_fit_on_the_disk_is_no_failure() -> None:
    aside = "from launch.startup import starting; starting.say_aside('done'); print('a result')"
    program = PROGRAM.format(work=aside)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=full
        )
    assert (done.returncode, done.stdout) == (0, b"a line\na result\n")


def test_output_that_does_not_fit_on_the_disk_is_a_failure() -> None:
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


def test_messages_do_not_go_to_the_output_if_standard_error_is_closed() -> None:
    says = "import sys; print('a notice', file=sys.stderr); sys.stderr.fileno()"
    command = shlex.join([sys.executable, "-c", PROGRAM.format(work=says)])
    done = subprocess.run(
        f"{command} 2>&-", shell=True, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a line\n"


def test_a_bug_prints_a_traceback() -> None:
    with start("1 / 0") as program:
        _, errors = program.communicate(timeout=60)
    assert errors.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert program.returncode == 1
