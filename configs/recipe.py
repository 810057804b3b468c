"""The recipe for a good agent, by what docs/experiments.md has found: here for 20 million steps on
a few CPU cores. The files for GPUs and slices follow it.
"""

from ml_collections import config_dict

from configs import default

# As many as the game's kernel steps at a time on one core. (A chip of a v4 has two; what larger
# batches would learn was not tried.)
BOARDS_PER_CHIP = 1024


def follow(config: config_dict.ConfigDict) -> config_dict.ConfigDict:
    """Applies the recipe for PPO, but for the sizes of the batch and the learning rate."""
    # The board is centred on the player and turned towards the exit. So what lies one step ahead is
    # learned once, and not anew for each position and direction.
    config.network = "centred"
    config.turn_boards = True
    config.num_layers = 2
    config.channels = 16
    config.hidden_dim = 128
    # Going back and forth earns nothing; a step towards the exit pays at once.
    config.potential_shaping = True
    # Otherwise a victory, worth 500 and more, drowns the rewards of single steps.
    config.compress_rewards = True
    # Programs win games, and without this reward an agent seldom finds out what they are for.
    config.owned_reward = 3.0
    config.gamma = 0.99
    # With a quarter of this weight, and no reward for programs, the agent did not find UNDO.
    config.ent_coef = 0.02
    return config


def look_far(config: config_dict.ConfigDict) -> None:
    """Changes the recipe for tens of millions of steps and more."""
    # So many can teach what programs are worth many turns later and, once the agent has explored,
    # to play by what it found.
    config.gamma = 0.998
    config.owned_reward_end = 1.0
    config.ent_coef_end = 0.002


def on_accelerators(num_envs: int) -> config_dict.ConfigDict:
    """The recipe for GPUs and TPUs, with so many boards over all of them, for 500 million steps and
    more.
    """
    config = follow(default.get_config())
    # The type that their matrix units are made for; the agent learns as well with it.
    config.compute_dtype = "bfloat16"
    config.hidden_dim = 256  # so many steps can teach a wider network
    look_far(config)
    # A batch of few steps of many boards takes fewer kernels than the reverse, and teaches as much.
    config.num_envs = num_envs
    config.num_steps = 16
    config.num_minibatches = 16
    config.update_epochs = 4
    config.lr = 1e-3
    config.anneal_lr = True
    config.log_interval = 20
    return config


def on_cpus() -> config_dict.ConfigDict:
    """The recipe for a few CPU cores, for 20 million steps."""
    config = follow(default.get_config())
    config.num_envs = 64
    config.num_steps = 64
    config.update_epochs = 4
    config.lr = 1e-3
    config.anneal_lr = True
    config.total_timesteps = 20_000_000
    config.save_interval_minutes = 1.0
    return config


def get_config() -> config_dict.ConfigDict:
    config = on_cpus()
    look_far(config)
    return config
