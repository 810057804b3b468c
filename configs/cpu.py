"""Three minutes on a bare CPU that show whether training works, on any environment."""

from ml_collections import config_dict

from configs import default


def get_config() -> config_dict.ConfigDict:
    config = default.get_config()
    config.num_envs = 64
    config.num_steps = 64
    config.hidden_dim = 128  # half the work, and enough for what can be learned so soon
    config.total_timesteps = 1_500_000
    config.time_limit_minutes = 3.0
    # A step towards the exit is rewarded and one away from it is not punished, so that a learner
    # who looks far ahead first finds out that going back and forth pays. This one learns to leave.
    config.gamma = 0.9
    config.ent_coef = 0.01
    config.lr = 1.5e-3
    config.anneal_lr = True
    config.save_interval_minutes = 1.0
    return config
