"""PPO with convolutions, twenty minutes on two CPU cores: this trained policies/conv."""

from ml_collections import config_dict

from configs import default


def get_config() -> config_dict.ConfigDict:
    config = default.get_config()
    config.network = "conv"
    config.num_layers = 4
    config.channels = 32
    config.hidden_dim = 128
    config.separate_critic = True
    config.potential_shaping = True
    config.gamma = 0.98
    config.ent_coef = 0.01
    config.num_envs = 64
    config.num_steps = 64
    config.update_epochs = 2
    config.lr = 7e-4
    config.anneal_lr = True
    config.total_timesteps = 2_000_000
    config.save_interval_minutes = 1.0
    return config
