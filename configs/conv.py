"""PPO on two CPU cores for twenty minutes: an agent better than a shortest-path walker."""

from ml_collections import config_dict

from configs import default, recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.follow(default.get_config())
    config.num_envs = 64
    config.num_steps = 64
    config.update_epochs = 2
    config.lr = 7e-4
    config.anneal_lr = True
    config.total_timesteps = 2_000_000
    config.save_interval_minutes = 1.0
    return config
