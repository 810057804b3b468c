"""Programs speak before they load JAX, which takes seconds: a person should not wait in silence.
They keep an installed libtpu from complaining where there is no TPU, and JAX from 64 bits and
from strict types.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path.stem for path in (ROOT / "launch").glob("*.py") if "__main__" in path.read_text()
)
# What is said otherwise on the command line for a program to begin its work.
ARGUMENTS = {
    "bench": ["env"],
    "doctor": [],
    "drive": ["--policy=nowhere.npz"],
    "play": [],
    "preflight": ["--slice=v4-8"],
    "serve": ["--headless-cli"],
    "train": [],
}
OF_A_POLICY = ["--run=nobody"]
WITHOUT_JAX = ("drive", "report")  # the one plays with NumPy alone, the other finds no run to show
LOADED = "here JAX is loaded"
# What other programs are told, and ours would not work with.
NOT_OURS = {"ENABLE_X64": "1", "NUMPY_DTYPE_PROMOTION": "strict", "NUMPY_RANK_PROMOTION": "raise"}
INSTEAD_OF_JAX = f"""
import os
platforms = os.environ.get("JAX_PLATFORMS", "all")
settings = [os.environ["JAX_" + name] for name in {[*NOT_OURS]}]
os.write(1, f"{LOADED} for {{platforms}}, by {{settings}}\\n".encode())
os._exit(0)
"""
HAS_ACCELERATOR = any(
    map(glob.glob, ("/dev/accel*", "/dev/vfio/[0-9]*", "/dev/nvidia*", "/dev/kfd", "/dev/dxg"))
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each program says, errors and all, up to the moment when it loads JAX."""
    place = tmp_path_factory.mktemp("stub")
    (place / "jax").mkdir()
    (place / "jax/__init__.py").write_text(INSTEAD_OF_JAX)
    (place / "libtpu.py").touch()
    told = {f"JAX_{name}": value for name, value in NOT_OURS.items()}
    environment = {**os.environ, "PYTHONPATH": str(place), **told}
    environment.pop("JAX_PLATFORMS", None)
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", f"launch.{name}", *ARGUMENTS.get(name, OF_A_POLICY)],
            cwd=ROOT,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for name in PROGRAMS
    }
    return {name: process.communicate(timeout=100)[0] for name, process in started.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_something_before_it_loads_jax(said: dict[str, str], name: str) -> None:
    words, loaded, _ = said[name].partition(LOADED)
    assert words.strip(), said[name]
    assert "Traceback" not in words
    assert bool(loaded) == (name not in WITHOUT_JAX)


@pytest.mark.skipif(HAS_ACCELERATOR, reason="JAX is to look for it")
@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {*WITHOUT_JAX}))
def test_a_program_does_not_look_for_a_tpu_where_there_is_none(
    said: dict[str, str], name: str
) -> None:
    assert f"{LOADED} for cpu" in said[name]


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {*WITHOUT_JAX}))
def test_a_program_computes_as_usual_where_others_are_told_to_in_64_bits_and_strictly(
    said: dict[str, str], name: str
) -> None:
    assert "by ['0', 'standard', 'allow']" in said[name]
