"""One GPU."""

from ml_collections import config_dict

from configs import default, recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(default.get_config())
    config.num_envs = 512
    config.num_steps = 128
    config.total_timesteps = 100_000_000
    return config
