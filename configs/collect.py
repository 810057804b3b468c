"""PPO on a few CPU cores that goes on from where configs/tune.py ends: programs stay worth
collecting to the end, which is what an agent needs that looks ahead.
"""

from ml_collections import config_dict

from configs import tune


def get_config() -> config_dict.ConfigDict:
    config = tune.get_config()
    config.start_from = "policies/winner"
    config.total_timesteps = 10_000_000
    config.owned_reward = 1.0
    config.owned_reward_end = 1.0
    return config
