"""What `make train` runs, on each kind of machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_an_environment_whose_python_is_gone_is_made_anew_with_its_packages(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/nowhere/python")
    (tmp_path / ".venv/.with-cpu").touch()
    told = subprocess.run(
        ["make", "--dry-run", ".venv/.with-cpu", "UV=/a place/uv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert '"/a place/uv" pip install' in told


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
