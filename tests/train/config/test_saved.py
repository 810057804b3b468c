"""A configuration in a run's directory: it comes back as it was, also that of an old run."""

import dataclasses
import json

import pytest

from hackmatrix.train.config import ConfigError, resolve
from hackmatrix.train.config.saved import from_json, resumed, to_json
from tests.train.settings import resolved

# Those of the oldest runs there are, which can still be resumed and looked at. This list stays as
# it is: a setting that is new says in hackmatrix/train/config/settings.py since when it is there.
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


def test_a_configuration_that_lacks_what_every_run_has_is_refused() -> None:
    old = json.loads(to_json(resolved()))
    del old["ent_coef"]
    with pytest.raises(ConfigError, match="ent_coef is missing"):
        from_json(json.dumps(old))


def test_a_run_saved_before_some_settings_were_there_goes_on_as_it_was() -> None:
    now = json.loads(to_json(resolved(num_envs=128)))
    saved = {name: now[name] for name in FIRST_SETTINGS}
    old = from_json(json.dumps(saved))
    again = resolve(resumed(old, {}), "tpu", 4)
    assert again == old
    assert dataclasses.asdict(again).items() >= saved.items()


def test_what_an_old_run_did_without_a_setting_is_what_it_goes_on_with() -> None:
    """These values stay as they are, also where new runs get others by default."""
    now = json.loads(to_json(resolved()))
    old = from_json(json.dumps({name: now[name] for name in FIRST_SETTINGS}))
    went_on = {
        name: value for name, value in dataclasses.asdict(old).items() if name not in FIRST_SETTINGS
    }
    assert went_on == {
        "watchdog_minutes": 20.0, "replica_check_interval": 1000, "eval_episodes": 256,
        "algorithm": "ppo", "network": "mlp", "channels": 32, "separate_critic": False,
        "potential_shaping": False, "simulations": 16, "start_from": None,
        "compress_rewards": False, "num_seeds": 1,
        "eval_interval_minutes": 0.0, "eval_games": 256,
    }  # fmt: skip


def test_another_size_of_an_update_is_what_the_rest_is_chosen_for_anew() -> None:
    saved = resolved(num_envs=256, num_steps=128, num_minibatches=8, update_epochs=1, lr=1e-3)
    assert resolve(resumed(saved, {"num_envs": 256}), "cpu", 1) == saved
    grown = resolve(resumed(saved, {"num_envs": 2048, "update_epochs": 3}), "cpu", 1)
    chosen = resolved(num_envs=2048, num_steps=128, update_epochs=3)
    assert (grown.num_minibatches, grown.lr) == (chosen.num_minibatches, chosen.lr)
    assert (grown.num_envs, grown.num_steps, grown.update_epochs) == (2048, 128, 3)
