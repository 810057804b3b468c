"""The configuration: what nobody said suits the devices, and every mistake is said at once."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configs import cpu, default, gpu, v4_8, v4_16, v4_32, v4_64
from hackmatrix.train import autoscale, configuring, run
from hackmatrix.train.config import (
    Config,
    ConfigError,
    differences,
    from_json,
    resolve,
    summary,
    to_json,
)
from hackmatrix.train.validation import RULES

ROOT = Path(__file__).parents[2]

# Those who trained before know these names and values.
REFERENCE = {
    "num_envs": 256, "num_steps": 128, "total_timesteps": 10_000_000, "lr": 2.5e-4, "gamma": 0.99,
    "gae_lambda": 0.95, "num_minibatches": 4, "update_epochs": 4, "clip_eps": 0.2, "vf_coef": 0.5,
    "ent_coef": 0.15, "max_grad_norm": 0.5, "hidden_dim": 256, "num_layers": 2, "log_interval": 10,
    "save_interval_minutes": 10.0, "save_interval": None, "checkpoint_dir": "checkpoints",
    "run_name": None, "run_suffix": None, "resume": None, "rewind": False, "seed": 0,
    "wandb": False, "project": "hackmatrix", "entity": None, "no_artifact": False,
    "compute_dtype": "float32", "anneal_lr": False, "scale_returns": True, "env": "hackmatrix",
    "time_limit_minutes": None, "keep_checkpoints": 3,
    "eval_episodes": 256, "watchdog_minutes": 20.0, "replica_check_interval": 1000,
}  # fmt: skip

# Those of the oldest runs there are, which can still be resumed and looked at. This list stays as
# it is: a setting that is new goes into _ADDED of hackmatrix/train/config.py instead.
FIRST_SETTINGS = {
    "env", "seed", "auto_tune", "num_envs", "num_steps", "total_timesteps",
    "time_limit_minutes", "num_minibatches", "update_epochs", "lr", "anneal_lr", "gamma",
    "gae_lambda", "clip_eps", "vf_coef", "ent_coef", "max_grad_norm", "scale_returns",
    "hidden_dim", "num_layers", "compute_dtype", "log_interval", "save_interval_minutes",
    "save_interval", "keep_checkpoints", "checkpoint_dir", "run_name", "run_suffix", "resume",
    "rewind", "wandb", "project", "entity", "no_artifact",
}  # fmt: skip

# A little program as the launch programs are, but without what they launch.
PROGRAM = """
import sys
from absl import app
from hackmatrix.train import command_line
from hackmatrix.train.config import ConfigError, resolve, to_json

CONFIG = command_line.define_config("launch.little")

def main(arguments):
    try:
        print(to_json(resolve(CONFIG.value, "cpu", 1)))
    except ConfigError as error:
        sys.exit(str(error))
    assert "jax" not in sys.modules

app.run(main, flags_parser=command_line.parser("launch.little"))
"""


def resolved(platform: str = "cpu", devices: int = 1, **given: Any) -> Config:
    raw = default.get_config()
    raw.update(given)
    return resolve(raw, platform, devices)


def errors(platform: str = "cpu", devices: int = 1, **given: Any) -> list[str]:
    raw = {**default.get_config(), **given}
    with pytest.raises(ConfigError) as raised:
        resolve(raw, platform, devices)
    assert str(raised.value).splitlines() == raised.value.errors
    return raised.value.errors


def launch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_default_has_every_setting_and_a_rule_for_it() -> None:
    names = {field.name for field in dataclasses.fields(Config)}
    assert set(default.get_config()) == names == set(RULES)


def test_the_default_is_the_reference_where_nothing_is_tuned() -> None:
    config = dataclasses.asdict(resolved(auto_tune=False))
    assert config == {**REFERENCE, "auto_tune": False}


def test_the_reference_takes_16_gradient_steps_of_8192_samples() -> None:
    config = resolved(auto_tune=False)
    assert (config.batch_size, config.minibatch_size, config.gradient_steps) == (32_768, 8_192, 16)
    assert config.num_updates == 10_000_000 // 32_768


@pytest.mark.parametrize(
    ("platform", "devices", "num_envs", "num_steps"),
    [
        ("cpu", 1, 64, 64), ("cpu", 8, 64, 64), ("gpu", 1, 512, 128), ("gpu", 4, 2048, 128),
        ("tpu", 4, 2048, 128), ("tpu", 32, 16384, 128), ("quantum", 1, 256, 128),
    ],
)  # fmt: skip
def test_the_rollout_suits_the_devices(
    platform: str, devices: int, num_envs: int, num_steps: int
) -> None:
    config = resolved(platform, devices)
    assert (config.num_envs, config.num_steps) == (num_envs, num_steps)


@pytest.mark.parametrize(
    ("num_envs", "minibatches", "epochs", "lr"),
    [
        (64, 4, 4, 2.5e-4), (256, 4, 4, 2.5e-4), (511, 4, 4, 2.5e-4), (512, 8, 2, 2.5e-4),
        (1024, 16, 2, 1.25e-4), (2048, 32, 2, 6.25e-5), (4096, 64, 2, 3.125e-5),
        (16384, 64, 2, 3.125e-5),
    ],
)  # fmt: skip
def test_a_large_batch_takes_more_minibatches_fewer_epochs_and_a_lower_rate(
    num_envs: int, minibatches: int, epochs: int, lr: float
) -> None:
    config = resolved(num_envs=num_envs, num_steps=128)
    assert (config.num_minibatches, config.update_epochs) == (minibatches, epochs)
    assert config.lr == pytest.approx(lr)


@pytest.mark.parametrize(
    "given",
    [
        {"num_envs": 128}, {"num_steps": 256}, {"num_minibatches": 2}, {"update_epochs": 7},
        {"lr": 1e-3}, {"num_envs": 4096, "num_steps": 256, "num_minibatches": 4},
        {"num_envs": 4096, "num_steps": 256, "update_epochs": 4, "lr": 2.5e-4},
    ],
)  # fmt: skip
def test_what_is_given_is_never_changed(given: dict[str, Any]) -> None:
    config = dataclasses.asdict(resolved("tpu", 4, **given))
    assert {name: config[name] for name in given} == given


def test_the_rate_follows_gradient_steps_that_were_given_but_is_never_raised_by_them() -> None:
    assert resolved(update_epochs=8).lr == pytest.approx(1.25e-4)
    assert resolved(update_epochs=1).lr == 2.5e-4


@pytest.mark.parametrize("platform", autoscale.TUNED)
def test_what_is_chosen_here_works_on_any_number_of_devices(platform: str) -> None:
    for devices in range(1, 65):
        config = resolved(platform, devices)
        assert config.groups % devices == 0
        tuned = autoscale.TUNED[platform]
        wanted = tuned.num_envs * (devices if tuned.is_per_device else 1)
        assert abs(config.num_envs - wanted) <= 128


def test_minibatches_that_are_chosen_share_every_group_equally() -> None:
    for num_envs in [*range(1, 70), 100, 510, 1000, 1536, 2047]:
        for num_steps in (1, 5, 100, 128):
            config = resolved(num_envs=num_envs, num_steps=num_steps)
            assert num_steps * num_envs // config.groups % config.num_minibatches == 0
            assert config.minibatch_size * config.num_minibatches == config.batch_size


def test_groups_are_the_largest_divisor_up_to_64_whatever_the_mesh() -> None:
    expected = {1: 1, 64: 64, 67: 1, 96: 48, 100: 50, 256: 64, 1536: 64, 2047: 23}
    for num_envs, groups in expected.items():
        assert resolved(num_envs=num_envs).groups == groups


@pytest.mark.parametrize(
    ("file", "platform", "devices", "minutes"),
    [
        (cpu, "cpu", 1, 3.0), (gpu, "gpu", 1, None), (v4_8, "tpu", 4, None),
        (v4_16, "tpu", 8, None), (v4_32, "tpu", 16, None), (v4_64, "tpu", 32, None),
    ],
)  # fmt: skip
def test_a_configuration_file_has_the_sizes_that_are_chosen_on_its_devices(
    file: Any, platform: str, devices: int, minutes: float | None
) -> None:
    config = resolve(file.get_config(), platform, devices)
    chosen = resolved(platform, devices)
    assert (config.num_envs, config.num_steps) == (chosen.num_envs, chosen.num_steps)
    assert config.time_limit_minutes == minutes
    changes = differences(config, chosen)
    # A run of minutes learns in another way than one of days.
    of_minutes = ("lr =", "ent_coef =", "gamma =", "hidden_dim =") if file is cpu else ()
    others = ("timesteps", "minutes", *of_minutes)
    assert all(any(name in each for name in others) for each in changes), changes


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
        "env": ["", "hackmatrix2", "gymnax:", 3],
        "seed": [-1, 2**32, 0.5],
        "auto_tune": [1, None],
        "num_envs": [0, -4, 2.0, "256", True],
        "num_steps": [0],
        "total_timesteps": [0, None, 1e6],
        "time_limit_minutes": [0, -1.0, NAN],
        "num_minibatches": [0],
        "update_epochs": [0],
        "lr": [0.0, NAN, float("inf"), "1e-4"],
        "gamma": [-0.1, 1.1, NAN],
        "gae_lambda": [-0.1, 1.1],
        "clip_eps": [0, 1, NAN],
        "vf_coef": [-1],
        "ent_coef": [-1, None],
        "max_grad_norm": [0],
        "hidden_dim": [0],
        "num_layers": [0],
        "compute_dtype": ["fp32", None],
        "log_interval": [0],
        "save_interval_minutes": [0, None],
        "save_interval": [0],
        "keep_checkpoints": [0],
        "checkpoint_dir": ["", "/tmp", "a/b", "..", None],
        "run_name": ["auto", "", "a b", "-x", "é"],
        "run_suffix": [""],
        "resume": [""],
        "project": ["", None],
        "entity": [" "],
    }.items(),
)
def test_a_wrong_value_is_one_line_with_its_name_and_itself(name: str, values: list[Any]) -> None:
    for value in values:
        (line,) = errors(**{name: value})
        assert line.startswith(f"{name}={value!r} must be ")


def test_settings_that_are_unknown_or_missing_are_named() -> None:
    raw = {**default.get_config(), "num_env": 3}
    del raw["gamma"]
    with pytest.raises(ConfigError) as raised:
        resolve(raw, "cpu", 1)
    unknown, missing = raised.value.errors
    assert unknown == "num_env is no setting: did you mean num_envs?"
    assert missing.startswith("gamma is missing")


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
    assert resolved(save_interval=25, log_interval=5).save_interval == 25


def test_more_devices_than_there_can_be_groups_are_refused() -> None:
    (line,) = errors("tpu", 128)
    assert "at most 64 devices" in line


def test_an_update_too_large_for_32_bits_is_refused() -> None:
    (line,) = errors(num_envs=2**24, num_steps=128)
    assert "too large" in line


def test_a_whole_number_will_do_where_a_number_is_wanted() -> None:
    config = resolve({**default.get_config(), "gamma": 1, "time_limit_minutes": 2}, "cpu", 1)
    assert (type(config.gamma), type(config.time_limit_minutes)) == (float, float)


def test_a_configuration_is_the_same_after_it_was_written_and_read() -> None:
    config = resolved("tpu", 4, run_suffix="test", time_limit_minutes=1.5)
    assert from_json(to_json(config)) == config


def test_a_configuration_that_lacks_what_every_run_has_is_refused() -> None:
    old = json.loads(to_json(resolved()))
    del old["ent_coef"]
    with pytest.raises(ConfigError, match="ent_coef is missing"):
        from_json(json.dumps(old))


def test_a_run_saved_before_some_settings_were_there_goes_on_as_it_was(tmp_path: Path) -> None:
    now = json.loads(to_json(resolved(num_envs=128)))
    saved = {name: now[name] for name in FIRST_SETTINGS}
    (tmp_path / "old").mkdir()
    (tmp_path / "old/config.json").write_text(json.dumps(saved))
    old = run.find(tmp_path, "old")
    assert old
    again = resolve(configuring.resumed(old.config, {}), "tpu", 4)
    assert again == old.config
    assert dataclasses.asdict(again).items() >= saved.items()


def test_what_differs_from_the_default_is_said_as_one_would_give_it() -> None:
    lines = differences(resolved(ent_coef=0.2, total_timesteps=2_000_000), resolved())
    assert lines == [
        "total_timesteps = 2_000_000 (default: 10_000_000)",
        "ent_coef = 0.2 (default: 0.15)",
    ]
    assert differences(resolved(), resolved()) == []


def test_the_summary_says_what_will_run() -> None:
    config = resolved("tpu", 4, time_limit_minutes=90, anneal_lr=True)
    lines = summary(config, "tpu", 4, parameters=473_373)
    text = "\n".join(lines)
    for words in (
        "4 x tpu", "2,048 of hackmatrix, 512 a device, in 64 groups",
        "2,048 x 128 = 262,144 samples", "32 of 8,192, 2 epochs: 64 gradient steps",
        "6.25e-05, annealed to 0", "473,373 parameters", "float32", "at most 90 minutes",
        "every 10 minutes",
    ):  # fmt: skip
        assert words in text
    assert max(map(len, lines)) <= 98


def test_flags_override_a_configuration_file_before_jax_is_loaded() -> None:
    done = launch("--config=configs/cpu.py", "--config.num_envs=1_024", "--config.lr=1e-3")
    assert done.returncode == 0, done.stderr
    config = from_json(done.stdout)
    assert (config.num_envs, config.lr, config.time_limit_minutes) == (1024, 1e-3, 3.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config.num_env=3"], "num_env is no setting: did you mean num_envs?"),
        (["--config=configs/cpu.py", "--config.ent_coeff=3"], "did you mean ent_coef?"),
        (["--config.xyzzy=3"], "xyzzy is no setting: configs/default.py has them all"),
        (["--config.num_envs=1e6"], "give a whole number, like 1_000_000"),
        (["--config=nowhere.py"], "--config cannot be read: No such file or directory"),
        (["--config=nowhere.py", "--config.lr=1"], "cannot be read: No such file or directory"),
        (["--config=configs/cpu.py:large"], "get_config() takes 0 positional arguments"),
        (["--confg=configs/cpu.py"], "Unknown command line flag 'confg'"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_mistake_on_the_command_line_is_one_line(arguments: list[str], words: str) -> None:
    done = launch(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("launch.little: ")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_wrong_values_on_the_command_line_are_all_listed() -> None:
    done = launch("--config.lr=-1", "--config.gamma=nan", "--config.save_interval=7")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 3, done.stderr
