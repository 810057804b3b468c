"""Settings that are given to hackmatrix.train, and what it says of wrong ones before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gama": 0.9}, "gama is not a setting: did you mean gamma?"),
        (
            {"gamma": 7, "lr": -1},
            "lr=-1 must be a number above 0\ngamma=7 must be a number from 0 to 1",
        ),
        ({"config": {"gama": 0.9}}, "gama is not a setting: did you mean gamma?"),
        ({"config": "nowhere.py"}, "nowhere.py cannot be read: No such file or directory"),
        ({"config": "configs"}, "configs is a directory: name a file, FILE.py"),
        ({"config": "configs/__init__.py"}, "configs/__init__.py has no get_config()"),
        ({"num_seeds": 3}, "num_seeds=3 works only with launch.train"),
        ({"resume": "nobody"}, "there is no run 'nobody'"),
        ({"resume": "winner"}, "; policies/winner is an agent, not a run: evaluate, watch, play"),
        ({"resume": "policies/winner"}, "begins with it by --config.start_from=policies/winner"),
        ({"resume": 3}, "resume=3 must be a run, or its name"),
        ({"config": 3}, "3 is not a configuration: give a mapping of settings by name"),
        ({"config": []}, "[] is not a configuration"),
        ({"config": {3: 4}}, "{3: 4} is not a configuration"),
    ],
)
def test_wrong_arguments_are_reported_and_leave_nothing_behind(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(hackmatrix.UserError) as refused:
        hackmatrix.train(workdir=tmp_path, **given)
    assert message in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_training_where_jax_computes_in_64_bits_is_refused(tmp_path: Path) -> None:
    with jax.enable_x64(True), pytest.raises(hackmatrix.UserError, match="JAX is set to 64 bits"):
        hackmatrix.train(workdir=tmp_path)


def test_a_get_config_that_returns_nothing_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def get_config():\n    config = {}\n")
    message = (
        r"mine\.py returns NoneType instead of settings by name: its get_config\(\) has to end with"
    )
    with pytest.raises(hackmatrix.UserError, match=message):
        hackmatrix.train(tmp_path / "mine.py", workdir=tmp_path)


def test_settings_may_be_numbers_of_numpy_and_jax(tmp_path: Path) -> None:
    given = {"seed": np.int64(3), "lr": np.float32(0.5), "gamma": jnp.float32(0.25)}
    with pytest.raises(hackmatrix.UserError) as refused:
        hackmatrix.train(workdir=tmp_path, num_envs=0, **given)
    assert str(refused.value) == "num_envs=0 must be a whole number from 1 to 2147483647"


def test_a_policy_to_start_from_may_be_a_path(tmp_path: Path) -> None:
    with pytest.raises(hackmatrix.UserError, match="there is no file runs/nobody"):
        hackmatrix.train(start_from=Path("runs/nobody"), workdir=tmp_path)


def test_the_configs_of_the_trainer_are_found_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hackmatrix.UserError, match="there is no run 'nobody'"):
        hackmatrix.train("configs/cpu.py", resume="nobody")
    with pytest.raises(hackmatrix.UserError, match=r"configs/gnu\.py cannot be read"):
        hackmatrix.train("configs/gnu.py")
