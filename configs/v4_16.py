"""A TPU v4-16 slice: 8 chips on two hosts."""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(num_envs=8 * recipe.BOARDS_PER_CHIP)
    config.total_timesteps = 1_000_000_000  # as many updates as v4_8 makes
    return config
