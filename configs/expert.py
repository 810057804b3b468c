"""Expert iteration on a few CPU cores, after PPO: learns what a tree search over boards finds.

Its search needs values that tell a good board from a bad one, so it begins with a policy of
configs/recipe.py. That policy wins fewer games afterwards (docs/experiments.md): this file shows
the algorithm, and does not make a better agent.

The games of training, which the printed lines describe, are played by the search. Those of eval/
and of the final evaluation are played by the network alone.
"""

from ml_collections import config_dict

from configs import recipe


def get_config() -> config_dict.ConfigDict:
    config = recipe.on_cpus()
    config.algorithm = "expert"
    config.start_from = "policies/centred"
    config.owned_reward = 0.0  # this policy already knows what programs are for
    config.num_envs = 128
    config.num_steps = 32
    config.lr = 5e-4
    config.total_timesteps = 1_500_000
    config.log_interval = 5
    return config
