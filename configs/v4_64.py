"""A TPU v4-64 slice: 32 chips on eight hosts."""

from ml_collections import config_dict

from configs import default, recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(default.get_config())
    config.num_envs = 16384
    config.num_steps = 128
    config.total_timesteps = 4_000_000_000  # as many updates as v4_8 makes
    return config
