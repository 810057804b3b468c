"""One GPU."""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(num_envs=32_768)
    config.total_timesteps = 1_000_000_000
    return config
