"""What programs say and set before their work."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from launch.startup import starting


def test_a_wait_is_announced_and_shows_signs_of_life_and_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_SECONDS_BETWEEN_LINES", 0.02)
    with starting.waiting("tea"):
        assert capsys.readouterr().err == "tea ...\n"
        time.sleep(0.2)
    *thread, last = capsys.readouterr().err.splitlines()
    assert thread
    assert all(sign == "tea: 0 s so far" for sign in thread)
    assert re.fullmatch(r"tea: done in \d\.\d s", last)


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


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The /dev of a machine with libtpu, on which nobody has said what JAX is to use."""
    monkeypatch.setattr(starting.importlib.util, "find_spec", lambda name: name == "libtpu" or None)
    monkeypatch.setattr(starting, "_ACCELERATORS", (f"{tmp_path}/accel*", f"{tmp_path}/nvidia*"))
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    (tmp_path / "null").touch()
    return tmp_path


def test_jax_is_not_sent_to_look_for_a_tpu_that_is_not_there(machine: Path) -> None:
    starting.leave_missing_tpu()
    assert os.environ["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize("device", ["accel0", "nvidiactl"])
def test_jax_looks_for_itself_where_there_is_an_accelerator(machine: Path, device: str) -> None:
    (machine / device).touch()
    starting.leave_missing_tpu()
    assert "JAX_PLATFORMS" not in os.environ


def test_jax_looks_for_itself_where_there_is_no_libtpu(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting.importlib.util, "find_spec", lambda name: None)
    starting.leave_missing_tpu()
    assert "JAX_PLATFORMS" not in os.environ


def test_what_somebody_has_said_jax_is_to_use_stays(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    starting.leave_missing_tpu()
    assert os.environ["JAX_PLATFORMS"] == "tpu"
