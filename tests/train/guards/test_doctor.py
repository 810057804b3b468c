"""The doctor finds what is wrong with a machine, and does not complain about what is right."""

import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import pytest

from hackmatrix.train.guards import doctor, installed
from hackmatrix.train.runs import shared_path
from hackmatrix.train.runs.places import place

ROOT = Path(__file__).parents[3]


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "launch.doctor", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )


def test_a_version_other_than_the_tested_one_is_named(tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("numpy==0.1\nno-such-package==3\n")
    found = installed.pins(constraints)
    assert not found.is_good
    assert f"numpy {metadata.version('numpy')} (tested: 0.1)" in found.text
    assert "no-such-package" not in found.text
    constraints.write_text(f"numpy=={metadata.version('numpy')}\n")
    assert installed.pins(constraints).is_good


def test_missing_requirements_are_named_with_the_command_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert installed.packages().is_good
    required = ["jax<0.12,>=0.10", "no-such_package>=1", 'nor-this>=2; extra == "gcp"']
    monkeypatch.setattr(metadata, "requires", lambda _: required)
    found = installed.packages()
    assert not found.is_good
    assert found.text == (
        "no-such_package: not installed, so no run can start: pip install -e . -c constraints.txt"
    )


def test_a_library_that_cannot_be_loaded_is_found_before_training_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distrax", None)  # an import raises ImportError
    found = doctor.distributions()
    assert not found.is_good
    why = "distrax, which draws actions, cannot be loaded: ModuleNotFoundError: .*: pip install "
    assert re.search(why, found.text)
    monkeypatch.setitem(sys.modules, "mctx", None)
    assert re.match("mctx cannot be loaded: .*: pip install", doctor.libraries().text)


def test_a_local_build_of_the_tested_version_counts_as_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (constraints := tmp_path / "constraints.txt").write_text("torch==1.2\n")
    monkeypatch.setattr(metadata, "version", lambda name: "1.2+cpu")
    assert installed.pins(constraints).is_good


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ("", RuntimeError("no 'tpu'\nset JAX_PLATFORMS=cpu"), "no 'tpu'"),
        ("foo", RuntimeError("no 'foo'"), "JAX_PLATFORMS=foo, but JAX finds no such .*: no 'foo'"),
        # What JAX raises if there is no GPU.
        ("cuda", AssertionError(), "JAX_PLATFORMS=cuda, but JAX finds no such device here: set .*"),
    ],
)
def test_without_devices_the_reason_is_reported_and_the_examination_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, error: Exception, message: str
) -> None:
    monkeypatch.setattr(doctor.jax, "devices", Mock(side_effect=error))
    monkeypatch.setattr(doctor.jax, "config", Mock(values={"jax_platforms": wanted}))
    *_, last = doctor.examine(str(tmp_path / "runs"))
    assert (last.about, last.is_good) == ("devices", False)
    assert re.fullmatch(message, last.text)
    assert doctor.bad_elsewhere([last]) == []  # without devices, no other process can be asked


def test_without_compilation_no_training_can_start_and_without_its_cache_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with jax.disable_jit():
        found = [each for each in doctor.examine(str(tmp_path)) if not each.is_good]
    assert [each.text for each in found] == [doctor.NOT_COMPILED]
    monkeypatch.setattr(doctor.jax, "config", Mock(values={"jax_enable_compilation_cache": False}))
    assert "not cached: JAX_ENABLE_COMPILATION_CACHE" in doctor.cache(str(tmp_path)).text


def test_a_workdir_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    runs = doctor.directory(str(file / "runs"))
    assert not runs.is_good
    assert str(file) in runs.text
    assert doctor.directory(str(tmp_path / "runs")).is_good
    assert list((tmp_path / "runs").iterdir()) == []


def test_training_can_start_where_compiled_programs_cannot_be_cached(
    tmp_path: Path,
) -> None:
    (file := tmp_path / "file").touch()
    found = doctor.cache(str(file / "cache"))
    assert found.is_good
    assert f"{file / 'cache'} cannot be written" in found.text
    assert "every start recompiles: set JAX_COMPILATION_CACHE_DIR" in found.text
    assert doctor.cache(str(tmp_path / "cache")).text.startswith("compiled programs are cached in")


def test_a_workdir_that_another_process_does_not_see_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second process can write there too, but finds nothing of what the first wrote.
    monkeypatch.setattr(shared_path, "gather_results", lambda sees: [sees(), False])
    found = doctor.directory(str(tmp_path))
    assert not found.is_good
    assert found.text.startswith(f"processes [1] see a different {tmp_path}: use a shared one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("forbidden", "what"),
    [("becomes_true", "cannot be read"), ("leave_sentinel", "cannot be written to")],
)
def test_a_workdir_in_which_a_process_cannot_look_or_write_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str, what: str
) -> None:
    """As a UserError, which is raised on all processes; for anything else the others would wait."""
    monkeypatch.setattr(shared_path, forbidden, Mock(side_effect=OSError(13, "Forbidden")))
    found = doctor.directory(str(tmp_path))
    assert not found.is_good
    assert found.text == f"{tmp_path} {what}: Forbidden: choose another --workdir"
    assert list(tmp_path.iterdir()) == []


def test_each_process_looks_for_the_sentinel_of_the_first_in_its_own_workdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentinel = shared_path.leave_sentinel(place(tmp_path / "first"))
    monkeypatch.setattr(shared_path, "is_first", lambda: False)
    monkeypatch.setattr(shared_path, "on_first", lambda _: sentinel.name)
    monkeypatch.setattr(shared_path, "PATIENCE", 0)
    assert doctor.directory(str(tmp_path / "first")).is_good
    assert not doctor.directory(str(tmp_path / "another")).is_good


def test_a_machine_on_which_another_program_holds_a_port_can_train(tmp_path: Path) -> None:
    """The port of a coordinator is taken, or refused, only when the processes meet."""
    with socket.socket() as other:
        with suppress(OSError):  # somebody holds it already
            other.bind(("", 8476))
            other.listen()
        found = [*doctor.examine(str(tmp_path / "runs"))]
    assert [each for each in found if not each.is_good] == []
    assert "distrax" in {each.about for each in found}


def test_a_lock_that_is_held_is_reported_with_its_process(tmp_path: Path) -> None:
    lock = tmp_path / "libtpu_lockfile"
    assert doctor.lock(lock).is_good
    with lock.open("w"):
        assert f"process {os.getpid()} uses the TPU" in doctor.lock(lock).text


@pytest.mark.parametrize(
    ("opened", "message"),
    [
        ({"return_value": []}, "was left behind by a program that ended: remove it"),
        ({"side_effect": PermissionError}, "shows who holds it; if nobody does, remove it"),
    ],
    ids=["by nobody", "by nobody that this user may know of"],
)
def test_a_lock_that_nobody_holds_is_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: dict[str, Any], message: str
) -> None:
    (lock := tmp_path / "libtpu_lockfile").touch()
    monkeypatch.setattr(doctor.os, "listdir", Mock(**opened))
    found = doctor.lock(lock)
    assert not found.is_good
    assert found.text.endswith(message)


def test_clocks_and_versions_of_processes_are_compared() -> None:
    assert doctor.clocks([100.0, 101.0]).is_good
    assert not doctor.clocks([100.0, 160.0]).is_good
    assert doctor.same_versions([{"jax": "1"}, {"jax": "1"}]).is_good
    lacking = doctor.same_versions([{"jax": "1"}, {}, {"jax": "1"}])
    assert lacking.text == "process 1 has jax = None, the others have 1: install the same versions"
    other = doctor.same_versions([{"jax": "1"}, {"jax": "2", "flax": "3"}])
    assert not other.is_good
    assert other.text == (
        "process 1 has flax = 3, the others have None; process 1 has jax = 2, the others have 1: "
        "install the same versions"
    )


def test_a_bucket_is_examined_like_a_directory(bucket_address: str) -> None:
    assert doctor.directory(bucket_address) == installed.Finding(
        "workdir", f"{bucket_address} can be written"
    )
    assert doctor.cache(bucket_address).text == f"compiled programs are cached in {bucket_address}"
    for wrong in ("gs://nobody/runs", "s3://bucket/runs"):
        assert not doctor.directory(wrong).is_good
        assert "so every start recompiles" in doctor.cache(wrong).text


def test_two_processes_are_examined_together(tmp_path: Path) -> None:
    """The second cannot write where the first can, and both report it."""
    (file := tmp_path / "file").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    together = [f"--coordinator=127.0.0.1:{port}", "--num_processes=2"]
    doctors = [
        start(*together, "--process_id=0", f"--workdir={tmp_path}/runs"),
        start(*together, "--process_id=1", f"--workdir={file}/runs"),
    ]
    outputs = [each.communicate(timeout=120) for each in doctors]
    assert [each.returncode for each in doctors] == [1, 1], outputs
    for text, _ in outputs:
        assert f"{file}/runs cannot be written" in text
        assert "ok   clocks" in text
        assert "ok   versions" in text
        assert len(text.splitlines()) < 24
