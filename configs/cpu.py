"""A bare CPU machine: three minutes that show whether training works."""

from ml_collections import config_dict

from configs import default


def get_config() -> config_dict.ConfigDict:
    config = default.get_config()
    config.num_envs = 64
    config.num_steps = 64
    config.total_timesteps = 2_000_000  # three minutes at 12,000 steps a second
    config.time_limit_minutes = 3.0
    # A short run learns to walk sooner with a higher rate and less entropy than a long one wants.
    config.lr = 1e-3
    config.ent_coef = 0.02
    config.save_interval_minutes = 1.0
    return config
