"""The benchmark of starts: one with an empty cache, and some with what that one cached."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hackmatrix.bench import starts
from hackmatrix.bench.report import Report
from hackmatrix.errors import UserError

PROGRAM = """
import os, pathlib, sys
assert sys.stdin.read() == "a line"
pathlib.Path(sys.argv[1], "page").write_text("")
kept = pathlib.Path(os.environ["JAX_COMPILATION_CACHE_DIR"], "kept")
with open("starts", "a") as starts:
    print("found" if kept.exists() else "empty", file=starts)
kept.write_text("")
"""


def test_a_temporary_directory_may_have_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spaced := tmp_path / "a b").mkdir()
    (tmp_path / "frugal.py").write_text(PROGRAM)
    monkeypatch.setattr(tempfile, "tempdir", str(spaced))
    monkeypatch.setattr(starts, "_PROGRAMS", {"frugal {}": "a line"})
    assert len(list(starts.measure(tmp_path))) == 1


def test_a_failing_program_is_reported_with_its_exit_code_and_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text("import sys; sys.exit('no such thing')")
    monkeypatch.setattr(starts, "_PROGRAMS", {"failing --hard": ""})
    with pytest.raises(UserError, match="-m failing --hard exited with code 1:\nno such thing"):
        list(starts.measure(tmp_path))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_benchmark_that_is_terminated_leaves_no_program_and_no_files(tmp_path: Path) -> None:
    def wait_until(is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 100
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def processes() -> list[Path]:
        """Returns those that have the directory in their environment."""
        there = Path("/proc").glob("[0-9]*")
        return [each for each in there if os.fsencode(tmp_path) in content(each / "environ")]

    def content(file: Path) -> bytes:
        with contextlib.suppress(OSError):  # the process has ended, or is another user's
            return file.read_bytes()
        return b""

    def a_program_loads_jax() -> bool:
        loading = (each for each in processes() if b"jaxlib" in content(each / "maps"))
        return any(b"launch.bench" not in content(each / "cmdline") for each in loading)

    benchmark = subprocess.Popen(
        [sys.executable, "-m", "launch.bench", "starts"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(a_program_loads_jax)  # one that is just being started might not be ended
        assert list(tmp_path.iterdir())
        benchmark.terminate()
        assert benchmark.wait(timeout=100) == 128 + signal.SIGTERM
        wait_until(lambda: not processes())
        assert list(tmp_path.iterdir()) == []
    finally:
        benchmark.kill()


def test_each_program_finds_an_empty_cache_and_then_what_it_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "frugal.py").write_text(PROGRAM)
    monkeypatch.setattr(starts, "_PROGRAMS", {"frugal {}": "a line"})
    (measured,) = starts.measure(tmp_path)
    assert (tmp_path / "starts").read_text().split() == ["empty", "found", "found", "found"]
    starts.tell([measured], Report(as_json=False))
    assert capsys.readouterr().out.splitlines()[1].endswith(measured.program)
