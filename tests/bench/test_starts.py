"""What is measured of starts: one with an empty cache, and some with what that one kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from hackmatrix.bench import starts

PROGRAM = """
import os, pathlib, sys
assert sys.stdin.read() == "a line"
pathlib.Path(sys.argv[1], "page").write_text("")
kept = pathlib.Path(os.environ["JAX_COMPILATION_CACHE_DIR"], "kept")
with open("starts", "a") as starts:
    print("found" if kept.exists() else "empty", file=starts)
kept.write_text("")
"""


def test_each_program_finds_an_empty_cache_and_then_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frugal.py").write_text(PROGRAM)
    monkeypatch.setattr(starts, "_PROGRAMS", {"frugal {}": "a line"})
    (measured,) = starts.measure(tmp_path)
    assert (tmp_path / "starts").read_text().split() == ["empty", "found", "found", "found"]
    assert list(starts.lines(iter([measured])))[1].endswith(measured.program)
