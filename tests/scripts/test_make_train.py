"""The environment that `make` sets up, and what `make train` runs on each kind of machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STAMP = ".venv/.with-cpu"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a virtual environment that was made there and has its packages."""
    (checkout := tmp_path / "checkout").mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, checkout)
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    (checkout / ".venv/bin/activate").write_text(f"VIRTUAL_ENV='{checkout}/.venv'\n")
    (checkout / STAMP).touch()
    return checkout


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True)


def dry_run(checkout: Path, uv: str = "/a place/uv") -> str:
    """Returns the commands by which make would install the packages."""
    return make(checkout, "--dry-run", STAMP, f"UV={uv}").stdout


def test_an_environment_with_its_packages_is_up_to_date(checkout: Path) -> None:
    assert "is up to date" in dry_run(checkout)


def test_an_environment_whose_python_is_gone_is_recreated_with_its_packages(checkout: Path) -> None:
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to("/nowhere/python")
    output = dry_run(checkout)
    assert 'uv" venv' in output
    assert '"/a place/uv" pip install' in output


@pytest.mark.parametrize("change", [shutil.move, shutil.copytree])
def test_a_moved_or_copied_checkout_gets_a_new_environment(
    checkout: Path, change: Callable[..., Any]
) -> None:
    """The programs in the old environment contain the old path of its Python."""
    other = checkout.with_name("other")
    change(checkout, other)
    assert 'uv" venv' in (output := dry_run(other))
    assert "pip install" in output


def test_an_environment_behind_a_symlink_is_up_to_date(checkout: Path) -> None:
    (linked := checkout.with_name("linked")).symlink_to(checkout)
    assert "is up to date" in dry_run(linked)
    shutil.copytree(checkout, other := checkout.with_name("other"))
    shutil.rmtree(other / ".venv")
    (other / ".venv").symlink_to(checkout / ".venv")
    assert "is up to date" in dry_run(other)


@pytest.mark.parametrize(("status", "is_recreated"), [(0, False), (1, True)])
def test_an_unfinished_environment_without_pip_is_recreated(
    checkout: Path, status: int, is_recreated: bool
) -> None:
    python = checkout / ".venv/bin/python"
    python.unlink()
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    assert "-m venv" not in dry_run(checkout, uv="")  # packages were installed, so there was pip
    (checkout / STAMP).unlink()
    output = dry_run(checkout, uv="")
    assert ("-m venv" in output) == is_recreated
    assert "-m pip install" in output


def test_a_given_python_that_cannot_be_used_is_an_error(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    for uv in ("", "/a place/uv"):
        ended = make(checkout, ".venv/bin/python", f"UV={uv}", "PYTHON=/no where/python")
        assert ended.returncode
        assert "is at PYTHON=/no where/python; name one: make PYTHON=" in ended.stderr


def test_an_environment_is_made_by_the_given_python(checkout: Path) -> None:
    (python := checkout / "a python").write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$@" > made\n')
    python.chmod(0o755)
    shutil.rmtree(checkout / ".venv")
    assert not make(checkout, ".venv/bin/python", "UV=/uv", f"PYTHON={python}").returncode
    assert (checkout / "made").read_text() == "-m venv .venv\n"


def train_command(accelerator: str, arguments: str) -> str:
    """Returns the command that `make train` would run."""
    return subprocess.run(
        ["make", "--dry-run", "train", f"ACCELERATOR={accelerator}", f"TRAIN_ARGS={arguments}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("accelerator", "file"), [("cpu", "minutes"), ("cuda", "gpu"), ("tpu", "v4_8")]
)
def test_make_train_uses_the_config_of_the_accelerator_and_then_the_given_arguments(
    accelerator: str, file: str
) -> None:
    output = train_command(accelerator, "--config.seed=1")
    (config,) = re.findall(r"launch.train --config=(\S+) --config.seed=1\n", output)
    assert config == f"configs/{file}.py"
    assert (ROOT / config).is_file()


def test_make_train_uses_another_config_if_one_is_given() -> None:
    output = train_command("cpu", "--config=configs/cpu.py --config.lr=1e-3")
    assert re.search(r"launch.train +--config=configs/cpu.py --config.lr=1e-3\n", output)
