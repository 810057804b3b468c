"""A TPU v4-64 slice: 32 chips on eight hosts."""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(num_envs=32 * recipe.BOARDS_PER_CHIP)
    config.total_timesteps = 4_000_000_000  # as many updates as v4_8 makes
    return config
