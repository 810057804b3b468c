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
    """A checkout with an environment that was made there, with packages."""
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


def would_do(checkout: Path, uv: str = "/a place/uv") -> str:
    """What make would do to have the packages there."""
    return make(checkout, "--dry-run", STAMP, f"UV={uv}").stdout


def test_an_environment_that_is_there_with_its_packages_stays(checkout: Path) -> None:
    assert "is up to date" in would_do(checkout)


def test_an_environment_whose_python_is_gone_is_made_anew_with_its_packages(checkout: Path) -> None:
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to("/nowhere/python")
    told = would_do(checkout)
    assert 'uv" venv' in told
    assert '"/a place/uv" pip install' in told


@pytest.mark.parametrize("change", [shutil.move, shutil.copytree])
def test_in_a_checkout_that_was_moved_or_copied_the_environment_is_made_anew(
    checkout: Path, change: Callable[..., Any]
) -> None:
    """The programs in it name the Python of the old place."""
    other = checkout.with_name("other")
    change(checkout, other)
    assert 'uv" venv' in (told := would_do(other))
    assert "pip install" in told


def test_an_environment_behind_a_link_stays_where_it_is(checkout: Path) -> None:
    (linked := checkout.with_name("linked")).symlink_to(checkout)
    assert "is up to date" in would_do(linked)
    shutil.copytree(checkout, other := checkout.with_name("other"))
    shutil.rmtree(other / ".venv")
    (other / ".venv").symlink_to(checkout / ".venv")
    assert "is up to date" in would_do(other)


@pytest.mark.parametrize(("status", "is_anew"), [(0, False), (1, True)])
def test_an_environment_that_was_left_without_pip_is_made_anew(
    checkout: Path, status: int, is_anew: bool
) -> None:
    python = checkout / ".venv/bin/python"
    python.unlink()
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    assert "-m venv" not in would_do(checkout, uv="")  # packages are there, so pip was
    (checkout / STAMP).unlink()
    told = would_do(checkout, uv="")
    assert ("-m venv" in told) == is_anew
    assert "-m pip install" in told


def test_a_python_that_is_named_and_will_not_do_is_not_passed_over(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    for uv in ("", "/a place/uv"):
        ended = make(checkout, ".venv/bin/python", f"UV={uv}", "PYTHON=/no where/python")
        assert ended.returncode
        assert "is at PYTHON=/no where/python; name one: make PYTHON=" in ended.stderr


def test_an_environment_is_made_by_the_python_that_is_named(checkout: Path) -> None:
    (python := checkout / "a python").write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$@" > made\n')
    python.chmod(0o755)
    shutil.rmtree(checkout / ".venv")
    assert not make(checkout, ".venv/bin/python", "UV=/uv", f"PYTHON={python}").returncode
    assert (checkout / "made").read_text() == "-m venv .venv\n"


def trains_by(accelerator: str, arguments: str) -> str:
    """The command by which it trains."""
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
def test_it_trains_by_the_file_for_the_accelerator_and_then_what_is_given(
    accelerator: str, file: str
) -> None:
    told = trains_by(accelerator, "--config.seed=1")
    (config,) = re.findall(r"launch.train --config=(\S+) --config.seed=1\n", told)
    assert config == f"configs/{file}.py"
    assert (ROOT / config).is_file()


def test_it_trains_by_another_file_where_one_is_given() -> None:
    told = trains_by("cpu", "--config=configs/cpu.py --config.lr=1e-3")
    assert re.search(r"launch.train +--config=configs/cpu.py --config.lr=1e-3\n", told)
