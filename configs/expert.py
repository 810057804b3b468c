"""Expert iteration on a few CPU cores, from PPO: learns what a search in a tree of boards finds.

Its search needs values that tell a good board from a bad one, so it begins with a policy of
configs/recipe.py. That policy wins fewer games afterwards (docs/experiments.md): this shows the
algorithm, and is no step of a recipe.
"""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_cpus()
    config.algorithm = "expert"
    config.start_from = "policies/centred"
    config.owned_reward = 0.0  # it knows what programs are for
    config.num_envs = 128
    config.num_steps = 32
    config.lr = 5e-4
    config.total_timesteps = 1_500_000
    config.log_interval = 5
    return config
