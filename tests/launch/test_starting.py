"""What programs say and set before their work."""

from __future__ import annotations

import gc
import importlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import jax
import pytest

from hackmatrix import machine as machine_here
from hackmatrix.train import waiting
from hackmatrix.train.guards.installed import INSTALL
from hackmatrix.train.runs.protocol import Unavailable
from launch.startup import starting


def test_a_wait_is_announced_and_shows_signs_of_life_and_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_SECONDS_BETWEEN_LINES", 0.02)
    with starting.waiting("tea"):
        assert capsys.readouterr().err == "tea ...\n"
        time.sleep(0.2)
    *thread, last = capsys.readouterr().err.splitlines()
    assert thread
    assert all(re.fullmatch(r"tea: \d+ s so far", sign) for sign in thread)
    assert re.fullmatch(r"tea: done in \d\.\d s", last)


def test_a_wait_says_how_much_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_SECONDS_BETWEEN_LINES", 0.02)
    with starting.waiting("tea") as note:
        note("one cup")
        note("two cups")
        time.sleep(0.2)
    _, *signs, last = capsys.readouterr().err.splitlines()
    assert signs
    assert re.fullmatch(r"tea: \d+ s so far, two cups", signs[-1])
    assert last.startswith("tea: done in ")


def test_a_wait_goes_on_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    with starting.waiting("tea"):
        pass


def test_what_is_loaded_is_not_looked_through_for_garbage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gc.unfreeze()
    try:
        with starting.loading("launch.tea", "the leaves"):
            assert not gc.isenabled()
            leaves = [[number] for number in range(100)]
        assert gc.isenabled()
        assert not any(each is leaves for each in gc.get_objects())  # but for those set apart
        with pytest.raises(ValueError, match="spilt"), starting.loading("launch.tea", "the water"):
            raise ValueError("spilt")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
    assert capsys.readouterr().err.startswith("launch.tea: loading the leaves ...\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError("it is of old:\njaxlib 0.4 does not fit."),
            f"jaxlib 0.4 does not fit: {INSTALL}",
        ),
        (ModuleNotFoundError("jax requires jaxlib"), f"jax requires jaxlib: {INSTALL}"),
        (ImportError(), f"ImportError: {INSTALL}"),
        (ValueError("'maybe' for JAX_DEBUG_NANS"), "'maybe' for JAX_DEBUG_NANS"),
    ],
)
def test_where_jax_cannot_be_loaded_a_line_says_why(
    monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    with pytest.raises(type(error)), starting.loading("launch.tea", "JAX"):
        raise error  # by a mistake of ours, as JAX is there
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.raises(SystemExit) as ended, starting.loading("launch.tea", "JAX"):
        raise error
    assert ended.value.code == f"launch.tea: JAX cannot be loaded: {line}"


def test_a_package_that_is_missing_is_named_but_for_our_own() -> None:
    with pytest.raises(SystemExit) as ended, starting.loading("launch.tea", "JAX"):
        importlib.import_module("no_such_package")
    assert ended.value.code == f"launch.tea: no_such_package is missing: {INSTALL}"
    with pytest.raises(ModuleNotFoundError), starting.loading("launch.tea", "JAX"):
        importlib.import_module("hackmatrix.no_such_module")


def test_a_mistake_in_our_sources_is_not_blamed_on_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.raises(SyntaxError), starting.loading("launch.tea", "JAX"):
        compile("def", "ours.py", "exec")


def test_the_doctor_tells_what_is_installed_also_where_jax_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise RuntimeError('jaxlib does not fit')")
    told = subprocess.run(
        [sys.executable, "-m", "launch.doctor"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1
    assert [line.split()[1] for line in told.stdout.splitlines()] == ["python", "packages", "pins"]
    last = f"launch.doctor: JAX cannot be loaded: jaxlib does not fit: {INSTALL}"
    assert told.stderr.splitlines()[-1] == last


def test_the_doctor_says_that_it_is_not_the_python_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "absl", None)
    monkeypatch.delitem(sys.modules, "launch.doctor", raising=False)
    with pytest.raises(SystemExit) as ended:
        importlib.import_module("launch.doctor")
    assert str(ended.value.code).startswith("launch.doctor: absl is missing: source .venv/bin/act")


def test_a_wait_that_fails_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="burnt"), starting.waiting("toast"):
        raise ValueError("burnt")
    assert capsys.readouterr().err == "toast ...\n"


def test_a_bucket_that_is_away_ends_a_program_with_a_line() -> None:
    with pytest.raises(SystemExit) as ended, starting.one_line_errors("launch.tea"):
        raise Unavailable("gs://bucket/runs: Server disconnected")
    assert ended.value.code == "launch.tea: gs://bucket/runs: Server disconnected"


def test_a_program_without_the_devices_that_it_is_to_use_ends_with_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting.need_devices()
    monkeypatch.setattr(jax, "devices", Mock(side_effect=AssertionError))
    with pytest.raises(SystemExit) as ended, starting.one_line_errors("launch.tea"):
        starting.need_devices()
    assert str(ended.value.code).startswith("launch.tea: JAX_PLATFORMS=cpu, but JAX finds no such")


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


def test_a_user_without_a_home_keeps_no_compiled_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
    starting.keep_compiled_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The /dev of a machine with libtpu, on which nobody has said what JAX is to use."""
    monkeypatch.setattr(machine_here, "has_libtpu", lambda: True)
    monkeypatch.setattr(
        machine_here, "_TPUS", (f"{tmp_path}/accel[0-9]*", f"{tmp_path}/vfio[0-9]*")
    )
    monkeypatch.setattr(machine_here, "_GPUS", (f"{tmp_path}/nvidia*",))
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "")
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE")
    (tmp_path / "vfio").touch()  # without a number it is no device
    return tmp_path


@pytest.mark.parametrize("workdir", ["runs", "gs://bucket/runs/"])
def test_what_is_compiled_for_an_accelerator_is_kept_where_all_hosts_find_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch, workdir: str
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    (machine / "accel0").touch()
    starting.keep_compiled_programs(workdir)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == f"{workdir.rstrip('/')}/.compiled"


@pytest.mark.parametrize("program", ["train", "doctor"])
def test_the_doctor_looks_at_the_programs_that_training_keeps(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    code = f"""
import os, sys
from hackmatrix import machine
from launch import {program}
from launch.startup import command_line, starting
machine.has_gpu = lambda: True
starting.loading = lambda *_: sys.exit(os.environ["JAX_COMPILATION_CACHE_DIR"])
command_line.parser("launch.{program}")(["{program}", "--workdir={tmp_path}"])
{program}.main(["{program}"])
"""
    told = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert told.stderr == f"{tmp_path}/.compiled\n"


def test_jax_is_not_sent_to_look_for_a_tpu_that_is_not_there(machine: Path) -> None:
    machine_here.leave_missing_tpu()
    assert os.environ["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize("device", ["accel0", "nvidiactl"])
def test_jax_looks_for_itself_where_there_is_an_accelerator(machine: Path, device: str) -> None:
    (machine / device).touch()
    machine_here.leave_missing_tpu()
    assert "JAX_PLATFORMS" not in os.environ


def test_jax_looks_for_itself_where_there_is_no_libtpu(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_here, "has_libtpu", lambda: False)
    machine_here.leave_missing_tpu()
    assert "JAX_PLATFORMS" not in os.environ


def test_what_somebody_has_said_jax_is_to_use_stays(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    machine_here.leave_missing_tpu()
    assert os.environ["JAX_PLATFORMS"] == "tpu"


def test_a_program_beside_a_training_leaves_it_the_tpu_and_says_so(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "accel0").touch()
    starting.leave_room_for_training("tea")
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    said = (
        "tea: running on the CPU, to leave the TPU to training; set JAX_PLATFORMS=tpu to use it\n"
    )
    assert capsys.readouterr().err == said


def test_a_program_beside_a_training_takes_the_tpu_that_it_is_given(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "accel0").touch()
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    starting.leave_room_for_training("tea")
    assert os.environ["JAX_PLATFORMS"] == "tpu"
    assert capsys.readouterr().err == ""


def test_a_program_beside_a_training_takes_no_more_of_a_gpu_than_it_needs(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "nvidia0").touch()
    starting.leave_room_for_training("tea")
    assert "JAX_PLATFORMS" not in os.environ
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert "to leave the rest to training" in capsys.readouterr().err


def test_compiled_programs_are_kept_also_where_jax_is_there_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = "jax_compilation_cache_dir"
    monkeypatch.setenv(place.upper(), "elsewhere")
    before = jax.config.values[place]
    try:
        for chosen, kept in ((None, "elsewhere"), ("chosen", "chosen")):
            jax.config.update(place, chosen)
            starting.keep_compiled_programs()
            assert jax.config.values[place] == kept
    finally:
        jax.config.update(place, before)
