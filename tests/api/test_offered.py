"""What `import hackmatrix` offers, and what it costs."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import hackmatrix
from hackmatrix import machine

ROOT = Path(__file__).parents[2]
LIGHT = """
import sys, hackmatrix
heavy = {"jax", "flax", "ml_collections"}
assert not heavy & sys.modules.keys()
assert "train" in dir(hackmatrix) and callable(hackmatrix.train)
assert not heavy & sys.modules.keys()
import hackmatrix.train.config
assert callable(hackmatrix.train) and hackmatrix.train.config.Config
try:
    hackmatrix.train(learning_rate=1)
except hackmatrix.UserError as error:
    print(error)
"""


def test_the_import_is_light_and_the_package_train_does_not_shadow_the_function() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("learning_rate is not a setting")


@pytest.mark.skipif(machine.has_tpu() or machine.has_gpu(), reason="JAX is to look for it")
@pytest.mark.parametrize("imports", ["hackmatrix, jax", "jax, hackmatrix"])
def test_the_import_keeps_jax_from_looking_for_a_missing_tpu(tmp_path: Path, imports: str) -> None:
    (tmp_path / "libtpu.py").touch()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("JAX_PLATFORMS", None)
    done = subprocess.run(
        [sys.executable, "-c", f"import {imports}; print(jax.config.jax_platforms)"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("cpu\n", "")


def test_every_public_name_exists_and_others_do_not() -> None:
    for name in hackmatrix.__all__:
        assert getattr(hackmatrix, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'evaluate'"):
        hackmatrix.evaluate  # type: ignore[attr-defined]  # noqa: B018


def test_training_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(hackmatrix.train)) is hackmatrix.train
    assert copy.deepcopy(hackmatrix.train) is hackmatrix.train


def test_a_user_error_shows_no_traceback_in_a_notebook() -> None:
    assert hackmatrix.UserError("lr=-1 is wrong")._render_traceback_() == [
        "UserError: lr=-1 is wrong"
    ]
