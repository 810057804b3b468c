"""What programs say and set before their work."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from launch import starting


def test_a_wait_is_announced_and_shows_signs_of_life_and_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_SECONDS_BETWEEN_SIGNS", 0.02)
    with starting.waiting("tea"):
        assert capsys.readouterr().err == "tea ...\n"
        time.sleep(0.2)
    *signs, last = capsys.readouterr().err.splitlines()
    assert signs
    assert all(sign == "tea: 0 s so far" for sign in signs)
    assert last == "tea: done in 0.2 s"


def test_a_wait_goes_on_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    with starting.waiting("tea"):
        pass


def test_a_wait_that_fails_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="burnt"), starting.waiting("toast"):
        raise ValueError("burnt")
    assert capsys.readouterr().err == "toast ...\n"


def test_compiled_programs_are_kept_in_the_cache_of_the_user_or_where_they_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    starting.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "hackmatrix/jax")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    starting.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
