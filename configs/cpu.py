"""Three minutes on a bare CPU that show whether training works, on any environment."""

from ml_collections import config_dict

from configs import default


def get_config() -> config_dict.ConfigDict:
    config = default.get_config()
    config.num_envs = 64
    config.num_steps = 64
    config.hidden_dim = 128  # half the work, and enough for so short a run
    config.total_timesteps = 1_500_000
    config.time_limit_minutes = 3.0
    # The game rewards a step towards the exit, and does not punish one away from it. So an agent
    # with a long horizon first learns to go back and forth. With this short one it learns to leave.
    config.gamma = 0.9
    config.ent_coef = 0.01
    config.lr = 1.5e-3
    config.anneal_lr = True
    config.save_interval_minutes = 1.0
    return config
