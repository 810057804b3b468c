"""One GPU."""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(num_envs=4096)
    config.total_timesteps = 100_000_000
    return config
