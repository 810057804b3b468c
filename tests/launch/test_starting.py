"""What programs print and set up before their work."""

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


def test_a_wait_prints_its_beginning_its_progress_and_its_end(
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


def test_a_wait_prints_how_much_is_done(
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


def test_a_wait_continues_if_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    with starting.waiting("tea"):
        pass


def test_loaded_modules_are_exempt_from_garbage_collection(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gc.unfreeze()
    try:
        with starting.loading("launch.tea", "the leaves"):
            assert not gc.isenabled()
            leaves = [[number] for number in range(100)]
        assert gc.isenabled()
        assert not any(each is leaves for each in gc.get_objects())  # which lists no frozen objects
        with pytest.raises(ValueError, match="spilt"), starting.loading("launch.tea", "the water"):
            raise ValueError("spilt")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
    assert capsys.readouterr().err.startswith("launch.tea: loading the leaves ...\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("old:\njaxlib 0.4 does not fit."), f"jaxlib 0.4 does not fit: {INSTALL}"),
        (ModuleNotFoundError("jax requires jaxlib"), f"jax requires jaxlib: {INSTALL}"),
        (ImportError(), f"ImportError: {INSTALL}"),
        (ValueError("'maybe' for JAX_DEBUG_NANS"), "'maybe' for JAX_DEBUG_NANS"),
    ],
)
def test_a_failure_to_load_jax_is_explained_in_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    with pytest.raises(type(error)), starting.loading("launch.tea", "JAX"):
        raise error  # by a bug of ours, as JAX was imported
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.raises(SystemExit) as ended, starting.loading("launch.tea", "JAX"):
        raise error
    assert ended.value.code == f"launch.tea: JAX cannot be loaded: {line}"


def test_a_missing_package_is_named_unless_it_is_ours() -> None:
    with pytest.raises(SystemExit) as ended, starting.loading("launch.tea", "JAX"):
        importlib.import_module("no_such_package")
    assert ended.value.code == f"launch.tea: no_such_package is missing: {INSTALL}"
    with pytest.raises(ModuleNotFoundError), starting.loading("launch.tea", "JAX"):
        importlib.import_module("hackmatrix.no_such_module")


def test_a_library_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flux.py").write_text("import jax\njax.no_such_name")
    monkeypatch.syspath_prepend(tmp_path)
    why = "flux cannot be loaded: .*no_such_name.*: pip install"
    with pytest.raises(SystemExit, match=why), starting.loading("launch.tea", "JAX"):
        importlib.import_module("flux")


def test_an_error_in_our_sources_is_not_blamed_on_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.raises(SyntaxError), starting.loading("launch.tea", "JAX"):
        compile("def", "ours.py", "exec")


def test_the_doctor_prints_what_is_installed_even_if_jax_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise RuntimeError('jaxlib does not fit')")
    done = subprocess.run(
        [sys.executable, "-m", "launch.doctor"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["python", "packages", "pins"]
    last = f"launch.doctor: JAX cannot be loaded: jaxlib does not fit: {INSTALL}"
    assert done.stderr.splitlines()[-1] == last


def test_programs_report_a_python_without_our_packages() -> None:
    command = [sys.executable, "-S", "-m", "launch.train"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("absl is missing: source .venv/bin/activate, or pip install")


def test_a_wait_that_fails_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="burnt"), starting.waiting("toast"):
        raise ValueError("burnt")
    assert capsys.readouterr().err == "toast ...\n"


def test_an_unavailable_bucket_ends_a_program_with_one_line() -> None:
    with pytest.raises(SystemExit) as ended, starting.one_line_errors("launch.tea"):
        raise Unavailable("gs://bucket/runs: Server disconnected")
    assert ended.value.code == "launch.tea: gs://bucket/runs: Server disconnected"


def test_a_program_without_its_devices_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    starting.need_devices()
    monkeypatch.setattr(jax, "devices", Mock(side_effect=AssertionError))
    with pytest.raises(SystemExit) as ended, starting.one_line_errors("launch.tea"):
        starting.need_devices()
    assert str(ended.value.code).startswith("launch.tea: JAX_PLATFORMS=cpu, but JAX finds no such")


def test_compiled_programs_are_cached_where_the_user_says_or_with_other_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    starting.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "hackmatrix/jax")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    starting.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"


@pytest.mark.parametrize(
    "home", [Mock(side_effect=RuntimeError), Mock(return_value=Path("/dev/null"))]
)
def test_without_a_home_to_write_to_no_programs_are_cached(
    home: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    starting.keep_compiled_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The /dev of a machine with libtpu, on which JAX_PLATFORMS is not set."""
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
def test_programs_for_an_accelerator_are_cached_in_the_workdir_which_all_hosts_share(
    machine: Path, monkeypatch: pytest.MonkeyPatch, workdir: str
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    (machine / "accel0").touch()
    starting.keep_compiled_programs(workdir)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == f"{workdir.rstrip('/')}/.compiled"


@pytest.mark.parametrize("program", ["train", "doctor"])
def test_the_doctor_uses_the_compilation_cache_of_training(
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
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.stderr == f"{tmp_path}/.compiled\n"


def test_jax_does_not_look_for_a_missing_tpu(machine: Path) -> None:
    machine_here.leave_missing_tpu()
    assert os.environ["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize("device", ["accel0", "nvidiactl"])
def test_jax_chooses_its_platform_if_there_is_an_accelerator(machine: Path, device: str) -> None:
    (machine / device).touch()
    machine_here.leave_missing_tpu()
    assert "JAX_PLATFORMS" not in os.environ


def test_jax_chooses_without_libtpu(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_here, "has_libtpu", lambda: False)
    machine_here.leave_missing_tpu()
    assert "JAX_PLATFORMS" not in os.environ


def test_a_platform_that_is_set_stays(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    machine_here.leave_missing_tpu()
    assert os.environ["JAX_PLATFORMS"] == "tpu"


def test_a_program_beside_training_leaves_it_the_tpu_and_says_so(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "accel0").touch()
    starting.leave_room_for_training("tea")
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    line = "tea: running on the CPU, to leave the TPU to training; set JAX_PLATFORMS=tpu to use it"
    assert capsys.readouterr().err == f"{line}\n"


def test_a_program_beside_training_uses_the_tpu_if_it_is_told_to(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "accel0").touch()
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    starting.leave_room_for_training("tea")
    assert os.environ["JAX_PLATFORMS"] == "tpu"
    assert capsys.readouterr().err == ""


def test_a_program_beside_training_does_not_preallocate_the_gpu(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "nvidia0").touch()
    starting.leave_room_for_training("tea")
    assert "JAX_PLATFORMS" not in os.environ
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert "to leave the rest to training" in capsys.readouterr().err


def test_programs_are_cached_even_if_jax_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "jax_compilation_cache_dir"
    monkeypatch.setenv(place.upper(), "elsewhere")
    before = jax.config.values[place]
    try:
        for chosen, expected in ((None, "elsewhere"), ("chosen", "chosen")):
            jax.config.update(place, chosen)
            starting.keep_compiled_programs()
            assert jax.config.values[place] == expected
    finally:
        jax.config.update(place, before)
