"""What makes an agent good at this game, as far as docs/experiments.md knows."""

from ml_collections import config_dict


def follow(config: config_dict.ConfigDict) -> config_dict.ConfigDict:
    """The recipe for PPO; sizes and the learning rate are left as they are."""
    # A network with the same weights for all cells, which sees where the player stands.
    config.network = "conv"
    config.num_layers = 4
    config.channels = 32
    config.hidden_dim = 128
    config.separate_critic = True
    # A step to and fro earns nothing; one that leads to the exit pays at once.
    config.potential_shaping = True
    config.gamma = 0.98
    config.ent_coef = 0.01
    return config
