"""Expert iteration on two CPU cores for 45 minutes, from PPO: an agent that looks ahead and wins.

Its search needs values that tell a good board from a bad one, so it begins with a policy of
configs/conv.py.
"""

from ml_collections import config_dict

from configs import conv


def get_config() -> config_dict.ConfigDict:
    config = conv.get_config()
    config.algorithm = "expert"
    config.start_from = "policies/conv"
    config.num_envs = 128
    config.num_steps = 32
    config.lr = 5e-4
    config.gamma = 0.99
    config.compress_rewards = True
    config.total_timesteps = 1_300_000
    config.log_interval = 5
    return config
