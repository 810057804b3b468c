"""Every mistake in a configuration is reported in one line, and all of them at once."""

from typing import Any

import pytest

from configs import default
from hackmatrix.errors import UserError
from hackmatrix.train.config import resolve
from tests.train.settings import resolved


def errors(platform: str = "cpu", devices: int = 1, **given: Any) -> list[str]:
    raw = {**default.get_config(), **given}
    with pytest.raises(UserError) as raised:
        resolve(raw, platform, devices)
    return str(raised.value).splitlines()


def test_five_mistakes_are_five_lines() -> None:
    lines = errors(lr=-1.0, gamma=1.5, compute_dtype="float16", num_minibatches=3, run_suffix="a/b")
    assert len(lines) == 5
    for line, wrong in zip(
        sorted(lines),
        ["compute_dtype='float16'", "gamma=1.5", "lr=-1.0", "num_minibatches=3", "run_suffix="],
        strict=True,
    ):
        assert line.startswith(wrong)


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "env": ["", "hackmatrix2", "gymnax:", "my.module", "a b:c", 3],
        "algorithm": ["", "dqn", "my.module", ":PPO", None],
        "network": ["", "resnet", "my.module", "mlp:", 3],
        "episode_limit": [-1, 2**31],
        "kernels": [1],
        "seed": [-1, 2**32, 0.5],
        "num_seeds": [0],
        "auto_tune": [1, None],
        "num_envs": [0, -4, 2.0, "256", True],
        "num_steps": [0],
        "total_timesteps": [0, None, 1e6, 2**63, 10**400],
        "time_limit_minutes": [0, -1.0, NAN],
        "num_minibatches": [0],
        "update_epochs": [0],
        "lr": [0.0, NAN, float("inf"), 10**400, "1e-4"],
        "gamma": [-0.1, 1.1, NAN],
        "gae_lambda": [-0.1, 1.1],
        "clip_eps": [0, 1, NAN],
        "vf_coef": [-1],
        "ent_coef": [-1, 10**400, None],
        "ent_coef_end": [-1, "none"],
        "max_grad_norm": [0],
        "skip_nonfinite": [1],
        "simulations": [0, 10**6],
        "start_from": [""],
        "hidden_dim": [0],
        "num_layers": [0],
        "channels": [0, None],
        "separate_critic": [1, "yes", None],
        "turn_boards": [1, "yes", None],
        "owned_reward": [-0.5, None],
        "owned_reward_end": [-0.5, None],
        "compute_dtype": ["fp32", None],
        "log_interval": [0],
        "save_interval_minutes": [0, None],
        "save_interval": [0],
        "keep_checkpoints": [0],
        "keep_milestones": [-1],
        "watchdog_minutes": [0, -1.0, None],
        "replica_check_interval": [0, 1.0],
        "eval_interval_minutes": [-1.0],
        "eval_games": [0, 2**32],
        "eval_episodes": [-1, None, 2**32],
        "checkpoint_dir": ["", "/tmp", "a/b", "..", None, "owner"],
        "run_name": ["auto", "", "a b", "-x", "é", 201 * "a"],
        "run_suffix": [""],
        "resume": [""],
        "wandb": ["yes"],
        "project": ["", None],
        "entity": [" "],
    }.items(),
)
def test_a_wrong_value_is_reported_in_one_line_with_the_name_of_its_setting(
    name: str, values: list[Any]
) -> None:
    for value in values:
        (line,) = errors(**{name: value})
        assert line.startswith(f"{name}={value!r} must be ")


def test_settings_that_are_unknown_or_missing_are_named() -> None:
    raw = {**default.get_config(), "num_env": 3}
    del raw["gamma"]
    with pytest.raises(UserError) as raised:
        resolve(raw, "cpu", 1)
    unknown, missing = str(raised.value).splitlines()
    assert (
        unknown == "num_env is not a setting: did you mean num_envs? "
        "configs/default.py lists all settings"
    )
    assert missing.startswith("gamma is missing")


def test_a_file_in_place_of_a_module_is_refused_with_the_name_of_the_module() -> None:
    with pytest.raises(UserError, match=r"name of the module, .*: use my_algorithm:Mine$"):
        resolve({**default.get_config(), "algorithm": "my_algorithm.py:Mine"}, "cpu", 1)


@pytest.mark.parametrize(("num_envs", "devices"), [(100, 8), (1536, 3), (7, 2), (64, 5), (1, 4)])
def test_environments_that_devices_cannot_share_are_refused_with_the_nearest_that_work(
    num_envs: int, devices: int
) -> None:
    (line,) = errors(devices=devices, num_envs=num_envs)
    assert line.startswith(f"num_envs={num_envs} ")
    assert f"{devices} devices" in line
    nearest = [int(word) for word in line.rpartition(";")[2].split() if word.isdecimal()]
    assert nearest
    assert min(nearest) < num_envs < max(nearest) or num_envs < devices
    for each in nearest:
        assert resolved(devices=devices, num_envs=each).groups % devices == 0


def test_minibatches_that_cannot_share_a_group_are_refused_with_the_nearest_that_work() -> None:
    (line,) = errors(num_envs=100, num_steps=30, num_minibatches=7)  # 50 groups of 60 samples
    assert line.startswith("num_minibatches=7 ")
    assert line.endswith("6 and 10 work")
    (line,) = errors(num_envs=1, num_steps=2, num_minibatches=9)
    assert line.endswith("2 works")


def test_a_save_interval_between_chunks_is_refused_with_the_nearest_that_work() -> None:
    (line,) = errors(save_interval=25)
    assert line.startswith("save_interval=25 ")
    assert line.endswith("20 and 30 work")
    (line,) = errors(save_interval=5, log_interval=10)
    assert line.endswith(" 10 works")
    assert resolved(save_interval=25, log_interval=5).save_interval == 25


def test_more_devices_than_there_can_be_groups_are_refused() -> None:
    (line,) = errors("tpu", 128)
    assert "at most 64 devices" in line


def test_an_update_too_large_for_32_bits_is_refused() -> None:
    (line,) = errors(num_envs=2**24, num_steps=128)
    assert "too large" in line


@pytest.mark.parametrize("given", [{}, {"num_envs": 8, "num_steps": 4}])
def test_more_updates_than_32_bits_can_count_are_refused(given: dict[str, Any]) -> None:
    steps = 2**31 * resolved(**given).batch_size
    (line,) = errors(total_timesteps=steps, **given)
    assert line == (
        f"total_timesteps={steps} is 2147483648 updates, but a run can have at most 2147483647; "
        "lower it, or raise num_envs or num_steps"
    )
    assert resolved(total_timesteps=steps - 1, **given).num_updates == 2**31 - 1


def test_an_integer_is_accepted_for_a_float_setting() -> None:
    config = resolve({**default.get_config(), "gamma": 1, "time_limit_minutes": 2}, "cpu", 1)
    assert (type(config.gamma), type(config.time_limit_minutes)) == (float, float)
