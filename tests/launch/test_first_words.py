"""Programs print a line before they load JAX, as that takes seconds.

They keep an installed libtpu from complaining where there is no TPU, and override environment
variables that set JAX to 64 bits or strict types.
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
# The arguments with which a program begins its work, if not DEFAULT_ARGUMENTS.
ARGUMENTS = {
    "bench": ["env"],
    "doctor": [],
    "drive": ["--policy=nowhere.npz"],
    "play": [],
    "preflight": ["--slice=v4-8"],
    "serve": ["--headless-cli"],
    "train": [],
}
DEFAULT_ARGUMENTS = ["--run=nobody"]
WITHOUT_JAX = ("drive", "report")  # drive plays with NumPy alone, report finds no run
LOADED = "here JAX is loaded"
# Settings of JAX that users may have made, and with which our programs would not work.
UNUSABLE = {"ENABLE_X64": "1", "NUMPY_DTYPE_PROMOTION": "strict", "NUMPY_RANK_PROMOTION": "raise"}
INSTEAD_OF_JAX = f"""
import os
platforms = os.environ.get("JAX_PLATFORMS", "all")
settings = [os.environ["JAX_" + name] for name in {[*UNUSABLE]}]
os.write(1, f"{LOADED} for {{platforms}}, by {{settings}}\\n".encode())
os._exit(0)
"""
HAS_ACCELERATOR = any(
    map(glob.glob, ("/dev/accel*", "/dev/vfio/[0-9]*", "/dev/nvidia*", "/dev/kfd", "/dev/dxg"))
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each program prints, also on standard error, until it loads JAX."""
    place = tmp_path_factory.mktemp("stub")
    (place / "jax").mkdir()
    (place / "jax/__init__.py").write_text(INSTEAD_OF_JAX)
    (place / "libtpu.py").touch()
    settings = {f"JAX_{name}": value for name, value in UNUSABLE.items()}
    environment = {**os.environ, "PYTHONPATH": str(place), **settings}
    environment.pop("JAX_PLATFORMS", None)
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", f"launch.{name}", *ARGUMENTS.get(name, DEFAULT_ARGUMENTS)],
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
def test_a_program_prints_something_before_it_loads_jax(printed: dict[str, str], name: str) -> None:
    words, loaded, _ = printed[name].partition(LOADED)
    assert words.strip(), printed[name]
    assert "Traceback" not in words
    assert bool(loaded) == (name not in WITHOUT_JAX)


@pytest.mark.skipif(HAS_ACCELERATOR, reason="JAX is to look for it")
@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {*WITHOUT_JAX}))
def test_a_program_does_not_look_for_a_tpu_where_there_is_none(
    printed: dict[str, str], name: str
) -> None:
    assert f"{LOADED} for cpu" in printed[name]


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {*WITHOUT_JAX}))
def test_a_program_overrides_jax_settings_of_64_bits_and_strict_types(
    printed: dict[str, str], name: str
) -> None:
    assert "by ['0', 'standard', 'allow']" in printed[name]
