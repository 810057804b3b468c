"""A TPU v4-8 slice: 4 chips on one host."""

from ml_collections import config_dict

from configs import default, recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(default.get_config())
    config.num_envs = 2048
    config.num_steps = 128
    config.total_timesteps = 500_000_000
    return config
