"""Resolved configurations: chosen settings suit the devices, and given settings stay."""

import importlib
from pathlib import Path
from typing import Any

import pytest

import configs
from configs import cpu, gpu, recipe, v4_8, v4_16, v4_32, v4_64
from hackmatrix.game.blocks import LANES
from hackmatrix.networks import Spec, files
from hackmatrix.train.config import autoscale, resolve
from hackmatrix.train.config.summary import differences
from tests.train.settings import resolved

FILES = Path(configs.__path__[0]).glob("[a-z]*.py")
CONFIGURATIONS = sorted(each.stem for each in FILES)
# Users of earlier versions know these names and values.
REFERENCE = {
    "num_envs": 256, "num_steps": 128, "total_timesteps": 10_000_000, "lr": 2.5e-4, "gamma": 0.99,
    "gae_lambda": 0.95, "num_minibatches": 4, "update_epochs": 4, "clip_eps": 0.2, "vf_coef": 0.5,
    "ent_coef": 0.15, "max_grad_norm": 0.5, "hidden_dim": 256, "num_layers": 2, "log_interval": 10,
    "save_interval_minutes": 10.0, "save_interval": None, "checkpoint_dir": "checkpoints",
    "run_name": None, "run_suffix": None, "resume": None, "rewind": False, "seed": 0,
    "wandb": False, "project": "hackmatrix", "entity": None, "no_artifact": False,
    "compute_dtype": "float32", "anneal_lr": False, "scale_returns": True, "env": "hackmatrix",
    "time_limit_minutes": None, "keep_checkpoints": 3, "keep_milestones": 10,
    "eval_episodes": 256, "watchdog_minutes": 20.0, "replica_check_interval": 1000,
    "algorithm": "ppo", "network": "mlp", "channels": 32, "separate_critic": False,
    "turn_boards": False, "owned_reward": 0.0, "owned_reward_end": 0.0, "ent_coef_end": None,
    "potential_shaping": False, "simulations": 16, "start_from": None,
    "compress_rewards": False, "num_seeds": 1, "skip_nonfinite": False,
    "episode_limit": 0, "kernels": None,
    "eval_interval_minutes": 10.0, "eval_games": 256,
}  # fmt: skip


def test_the_default_is_the_reference_where_nothing_is_tuned() -> None:
    config = resolved(auto_tune=False).settings()
    assert config == {**REFERENCE, "auto_tune": False}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_configuration_can_be_trained_with_on_a_laptop(name: str) -> None:
    file = importlib.import_module(f"configs.{name}")
    assert resolve(file.get_config(), "cpu", 1).num_updates > 0


@pytest.mark.parametrize("name", ["expert", "tune"])
def test_a_configuration_that_starts_from_a_shipped_policy_has_its_network(name: str) -> None:
    config = resolve(importlib.import_module(f"configs.{name}").get_config(), "cpu", 1)
    assert config.start_from is not None
    _, about = files.read(config.start_from)
    assert Spec.of(config) == about.spec


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
def test_given_settings_are_never_changed(given: dict[str, Any]) -> None:
    config = resolved("tpu", 4, **given).settings()
    assert {name: config[name] for name in given} == given


def test_the_learning_rate_falls_with_more_given_gradient_steps_and_never_rises() -> None:
    assert resolved(update_epochs=8).lr == pytest.approx(1.25e-4)
    assert resolved(update_epochs=1).lr == 2.5e-4


@pytest.mark.parametrize("platform", autoscale.TUNED)
def test_chosen_settings_work_on_any_number_of_devices(platform: str) -> None:
    for devices in range(1, 65):
        config = resolved(platform, devices)
        assert config.groups % devices == 0
        tuned = autoscale.TUNED[platform]
        wanted = tuned.num_envs * (devices if tuned.is_per_device else 1)
        assert abs(config.num_envs - wanted) <= 128


def test_chosen_minibatches_share_every_group_equally() -> None:
    for num_envs in [*range(1, 70), 100, 510, 1000, 1536, 2047]:
        for num_steps in (1, 5, 100, 128):
            config = resolved(num_envs=num_envs, num_steps=num_steps)
            assert num_steps * num_envs // config.groups % config.num_minibatches == 0
            assert config.minibatch_size * config.num_minibatches == config.batch_size


def test_the_nearest_numbers_of_minibatches_divide_a_group_and_are_found_fast() -> None:
    for samples in range(1, 150):
        divisors = [n for n in range(1, samples + 1) if samples % n == 0]
        for wanted in range(1, samples + 3):
            around = {
                max(n for n in divisors if n <= wanted),
                min((n for n in divisors if n > wanted), default=samples),
            }
            assert autoscale.nearest_num_minibatches(wanted, 1, samples) == sorted(around)
    prime = 2**31 - 1
    assert autoscale.nearest_num_minibatches(prime // 2, 1, prime) == [1, prime]


def test_groups_are_the_largest_divisor_up_to_64_whatever_the_mesh() -> None:
    expected = {1: 1, 64: 64, 67: 1, 96: 48, 100: 50, 256: 64, 1536: 64, 2047: 23}
    for num_envs, groups in expected.items():
        assert resolved(num_envs=num_envs).groups == groups


def test_the_cpu_file_trains_for_minutes_with_the_sizes_chosen_for_a_cpu() -> None:
    config, chosen = resolve(cpu.get_config(), "cpu", 1), resolved("cpu", 1)
    changed = {each.split(" = ")[0].strip() for each in differences(config, chosen)}
    length = {each for each in changed if "timesteps" in each or "minutes" in each}
    assert changed - length <= {"lr", "anneal_lr", "ent_coef", "gamma", "hidden_dim"}
    assert config.time_limit_minutes == 3


@pytest.mark.parametrize(
    ("file", "platform", "devices", "boards"),
    [
        (gpu, "gpu", 1, 32_768), (v4_8, "tpu", 4, 8 * LANES), (v4_16, "tpu", 8, 8 * LANES),
        (v4_32, "tpu", 16, 8 * LANES), (v4_64, "tpu", 32, 8 * LANES),
    ],
)  # fmt: skip
def test_a_file_for_accelerators_follows_the_recipe_in_short_rollouts_of_many_boards(
    file: Any, platform: str, devices: int, boards: int
) -> None:
    config = resolve(file.get_config(), platform, devices)
    assert config.num_envs == boards * devices
    followed = resolve(recipe.on_accelerators(config.num_envs), platform, devices)
    assert all("timesteps" in each for each in differences(config, followed))
    assert (config.num_steps, config.gradient_steps, config.lr) == (16, 64, 1e-3)
    assert (config.hidden_dim, config.gamma) == (256, 0.998)
    assert (config.owned_reward_end, config.ent_coef, config.ent_coef_end) == (1.0, 0.02, 0.002)


@pytest.mark.parametrize(("end", "at_end"), [(None, 0.02), (0.0, 0.0), (0.05, 0.05)])
def test_the_entropy_coefficient_stays_where_no_end_is_set(
    end: float | None, at_end: float
) -> None:
    assert resolved(ent_coef=0.02, ent_coef_end=end).ent_coef_at_end == at_end


def test_slices_of_any_size_do_equally_many_updates() -> None:
    of_smallest, *others = (
        resolve(file.get_config(), "tpu", devices).num_updates
        for file, devices in ((v4_8, 4), (v4_16, 8), (v4_32, 16), (v4_64, 32))
    )
    assert set(others) == {of_smallest}
