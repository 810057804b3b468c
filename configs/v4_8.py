"""A TPU v4-8 slice: 4 chips on one host."""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(num_envs=4 * recipe.BOARDS_PER_CHIP)
    config.total_timesteps = 500_000_000
    return config
