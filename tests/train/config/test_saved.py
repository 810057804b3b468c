"""The configuration in a run's directory is read back unchanged, even that of an old run."""

import copy
import json
from typing import Any

import pytest

from configs import default, given_by
from configs.recipe import follow
from hackmatrix.errors import UserError
from hackmatrix.train.config import Config, resolve
from hackmatrix.train.config.saved import from_json, resumed, to_json
from hackmatrix.train.config.settings import declared
from tests.train.settings import resolved

# The settings of the oldest runs, which can still be resumed and watched. Do not add to this list:
# hackmatrix/train/config/settings.py declares in which edition a new setting was added.
FIRST_SETTINGS = {
    "env", "seed", "auto_tune", "num_envs", "num_steps", "total_timesteps",
    "time_limit_minutes", "num_minibatches", "update_epochs", "lr", "anneal_lr", "gamma",
    "gae_lambda", "clip_eps", "vf_coef", "ent_coef", "max_grad_norm", "scale_returns",
    "hidden_dim", "num_layers", "compute_dtype", "log_interval", "save_interval_minutes",
    "save_interval", "keep_checkpoints", "checkpoint_dir", "run_name", "run_suffix", "resume",
    "rewind", "wandb", "project", "entity", "no_artifact",
}  # fmt: skip


def test_a_configuration_is_the_same_after_it_was_written_and_read() -> None:
    config = resolved("tpu", 4, run_suffix="test", time_limit_minutes=1.5)
    assert from_json(to_json(config)) == config


def test_a_configuration_without_a_setting_that_every_run_has_is_refused() -> None:
    old = json.loads(to_json(resolved()))
    del old["ent_coef"]
    with pytest.raises(ValueError, match="ent_coef is missing"):
        from_json(json.dumps(old))


@pytest.mark.parametrize("name", ["num_envs", "num_steps", "lr"])
def test_a_configuration_without_a_value_that_was_chosen_for_the_run_is_refused(name: str) -> None:
    saved = {**json.loads(to_json(resolved())), name: None}
    with pytest.raises(ValueError, match=f"^{name}=None must be a number in a run"):
        from_json(json.dumps(saved))


def test_a_run_saved_with_more_steps_than_can_be_counted_is_read() -> None:
    """Earlier revisions had no limit."""
    saved = {**json.loads(to_json(resolved())), "total_timesteps": 10**20}
    read = from_json(json.dumps(saved))
    assert resolve(resumed(read, {}), "cpu", 1) == read


@pytest.mark.parametrize("name", ["run_name", "run_suffix", "checkpoint_dir"])
def test_a_run_saved_with_a_longer_name_than_is_allowed_now_is_read(name: str) -> None:
    saved = {**json.loads(to_json(resolved())), name: "x" * 215}
    read = from_json(json.dumps(saved))
    assert resolve(resumed(read, {}), "cpu", 1) == read


def test_a_configuration_whose_chosen_settings_are_no_list_is_refused() -> None:
    saved = {**json.loads(to_json(resolved())), "chosen": True}
    with pytest.raises(ValueError, match=r"^chosen=True must be a list of settings"):
        from_json(json.dumps(saved))


def test_a_run_saved_before_some_settings_existed_resumes_unchanged() -> None:
    now = json.loads(to_json(resolved(num_envs=128)))
    saved = {name: now[name] for name in FIRST_SETTINGS}
    old = from_json(json.dumps(saved))
    again = resolve(resumed(old, {}), "tpu", 4)
    assert again == old
    assert again.settings().items() >= saved.items()


def test_an_old_run_resumes_with_the_former_behaviour_for_settings_it_lacks() -> None:
    """Do not change these values, even if new runs get other defaults."""
    now = json.loads(to_json(resolved()))
    old = from_json(json.dumps({name: now[name] for name in FIRST_SETTINGS}))
    added = {name: value for name, value in old.settings().items() if name not in FIRST_SETTINGS}
    assert added == {
        "watchdog_minutes": 20.0, "replica_check_interval": 1000, "eval_episodes": 256,
        "algorithm": "ppo", "network": "mlp", "channels": 32, "separate_critic": False,
        "turn_boards": False, "owned_reward": 0.0, "owned_reward_end": 0.0, "ent_coef_end": None,
        "potential_shaping": False, "simulations": 16, "start_from": None,
        "compress_rewards": False, "num_seeds": 1, "skip_nonfinite": False,
        "episode_limit": 0, "kernels": None,
        "eval_interval_minutes": 0.0, "eval_games": 256, "keep_milestones": 0,
    }  # fmt: skip


def test_given_settings_are_kept_when_an_update_changes_in_size() -> None:
    saved = resolved(num_envs=256, num_steps=128, num_minibatches=8, lr=1e-3)
    saved = from_json(to_json(saved))
    grown = resolve(resumed(saved, {"num_envs": 2048, "gamma": 0.9}), "cpu", 1)
    assert (grown.num_minibatches, grown.lr, grown.num_steps) == (8, 1e-3, 128)
    assert grown.update_epochs == resolved(num_envs=2048, num_steps=128).update_epochs
    assert grown.chosen == ("update_epochs",)


def test_chosen_settings_are_chosen_anew_for_the_devices_found() -> None:
    on_cpu, on_tpu = resolved("cpu", 1, ent_coef=0.1), resolved("tpu", 4, ent_coef=0.1)
    assert resolve(resumed(from_json(to_json(on_cpu)), {}), "tpu", 4) == on_tpu
    assert resolve(resumed(from_json(to_json(on_tpu)), {}), "tpu", 4) == on_tpu
    assert (on_cpu.num_envs, on_cpu.lr) != (on_tpu.num_envs, on_tpu.lr)


def test_settings_of_an_older_run_that_differ_from_the_chosen_ones_count_as_given() -> None:
    """The size of its updates stays the same on any devices, as it did in that version."""
    saved = json.loads(to_json(resolved(num_minibatches=8, num_envs=256, num_steps=128)))
    del saved["chosen"]
    grown = resolve(resumed(from_json(json.dumps(saved)), {"num_envs": 2048}), "tpu", 4)
    assert (grown.num_minibatches, grown.num_steps) == (8, 128)
    assert grown.lr == resolved(num_envs=2048, num_steps=128, num_minibatches=8).lr


@pytest.mark.parametrize(
    ("given", "had"),
    [
        ({"seed": 1}, "0"),
        ({"start_from": "policies/expert"}, "None"),
        ({"scale_returns": False}, "True"),
        ({"network": "conv"}, "'mlp'"),
        ({"hidden_dim": 128}, "256"),
        ({"num_layers": 3}, "2"),
        ({"channels": 8}, "32"),
        ({"separate_critic": True}, "False"),
        ({"turn_boards": True}, "False"),
        ({"algorithm": "expert"}, "'ppo'"),
        ({"env": "gymnax:CartPole-v1"}, "'hackmatrix'"),
        ({"checkpoint_dir": "elsewhere"}, "'checkpoints'"),
        ({"run_suffix": "x"}, "None"),
    ],
)
def test_settings_that_define_a_run_cannot_be_changed(given: dict[str, Any], had: str) -> None:
    ((name, value),) = given.items()
    with pytest.raises(UserError) as raised:
        resumed(resolved(), {**given, "gamma": 0.9})
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{name}={value!r} cannot be changed: this run was begun with {had};")
    assert "without --resume" in line
    resumed(resolved(**given), given)  # the same value may be given again


def test_a_file_gives_the_settings_that_it_sets_even_to_their_defaults() -> None:
    config = default.get_config()
    config.gamma = config.gamma
    config.update({"lr": 1e-3})
    config.own = 0.9
    assert given_by(config, default.get_config()) == {"gamma": 0.99, "lr": 1e-3, "own": 0.9}
    for same in (copy.deepcopy(config), config.copy_and_resolve_references()):
        assert given_by(same, default.get_config()) == config.given()
    assert given_by(default.get_config(), default.get_config()) == {}


def test_a_plain_dict_gives_the_settings_that_differ_from_the_defaults() -> None:
    defaults = {"lr": None, "gamma": 0.99, "seed": 0}
    assert given_by({**defaults, "lr": 1e-3, "own": 0.9}, defaults) == {"lr": 1e-3, "own": 0.9}


def test_a_run_resumed_with_a_file_has_the_settings_of_the_file() -> None:
    """configs/recipe.py sets gamma=0.99, which is also the default."""
    before = resolved(gamma=0.95, num_envs=64, time_limit_minutes=3.0)
    given = given_by(follow(default.get_config()), default.get_config())
    fixed = {name: given.pop(name) for name in list(given) if declared(Config)[name].is_fixed}
    assert {"network", "turn_boards"} <= fixed.keys()
    after = resumed(before, given)
    assert after["gamma"] == 0.99
    assert after["time_limit_minutes"] == 3.0
