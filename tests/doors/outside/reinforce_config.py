"""A configuration of REINFORCE on CartPole, with a value for the algorithm's own setting."""

from ml_collections import config_dict

from configs import default


def get_config() -> config_dict.ConfigDict:
    config = default.get_config()
    config.algorithm = "reinforce:Reinforce"
    config.baseline_decay = 0.9
    config.env = "gymnax:CartPole-v1"
    config.num_envs = 16
    config.num_steps = 256
    config.hidden_dim = 32
    config.gamma = 0.98
    config.lr = 0.01
    config.total_timesteps = 204_800
    config.eval_episodes = 0
    return config
