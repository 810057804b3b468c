"""PPO on a few CPU cores in a network twice as wide, which begins by playing as the one that
configs/tune.py and a lasting reward for programs lead to.
"""

from ml_collections import config_dict

from configs import tune


def get_config() -> config_dict.ConfigDict:
    config = tune.get_config()
    config.start_from = "policies/collector"
    config.hidden_dim = 256
    config.num_envs = 128
    config.total_timesteps = 40_000_000
    config.owned_reward = config.owned_reward_end = 1.0  # for want of them planned games are lost
    return config
