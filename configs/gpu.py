"""One GPU: a billion steps, in batches that fill it."""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_accelerators(num_envs=32_768)
    config.total_timesteps = 1_000_000_000
    # So many steps teach a wider network more, and that programs still pay many turns later.
    config.hidden_dim = 256
    config.gamma = 0.998
    config.owned_reward_end = 1.0
    # It has explored by then, and plays better by what it found.
    config.ent_coef_end = 0.002
    return config
