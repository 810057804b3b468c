"""PPO on two CPU cores for twenty minutes: an agent that wins."""

from ml_collections import config_dict

from configs import default, recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.follow(default.get_config())
    config.num_envs = 64
    config.num_steps = 64
    config.update_epochs = 4
    config.lr = 1e-3
    config.anneal_lr = True
    config.total_timesteps = 10_000_000
    config.save_interval_minutes = 1.0
    return config
