"""Every setting of the trainer, with its default. The other files here are small changes to this.

A placeholder has no value until somebody gives it one. Without one, num_envs and num_steps are
chosen for the device found, as is whether its kernels are used; num_minibatches, update_epochs and
lr follow from them, and all other placeholders mean "none". What is given is never changed.

    python -m launch.train --config.ent_coef=0.2 --config.num_envs=1024
    python -m launch.train --config=configs/cpu.py --config.seed=1
"""

from ml_collections import config_dict

from configs import Settings


def get_config() -> config_dict.ConfigDict:
    config = config_dict.ConfigDict()

    # What is played: "hackmatrix", "gymnax:NAME" such as "gymnax:CartPole-v1", or an environment of
    # your own: "MODULE:NAME", on Python's path.
    config.env = "hackmatrix"
    # Training cuts a game off after so many actions, for agents that go back and forth for ever; 0
    # never does. It counts as an episode; the value of its last board stands for what would have
    # followed.
    config.episode_limit = 0
    # Whether a step of the game is one kernel. None: yes on TPUs and on NVIDIA's GPUs from
    # Hopper (H100) on, else no. True forces it (interpreted on a CPU, refused for older GPUs),
    # False disables it.
    config.kernels = config_dict.placeholder(bool)
    # How it is learned: "ppo", "expert" (what a search finds, guided by the network, is what
    # the network learns), or an algorithm of your own as "MODULE:NAME".
    config.algorithm = "ppo"
    # The same seed gives the same run, on any number of devices.
    config.seed = 0
    # Train so many agents, one after the other, with this seed and those that follow it, and tell
    # what they reach on average: the runs RUN_NAME-seedN.
    config.num_seeds = 1

    # The batch of an update: environments over all devices, times steps of a rollout. With
    # auto_tune CPU 64 x 64, GPU 512 x 128 a device, TPU 512 x 128 a chip; without it 256 x 128.
    config.auto_tune = True
    config.num_envs = config_dict.placeholder(int)
    config.num_steps = config_dict.placeholder(int)
    # How long, over all starts of the run: at most so many environment steps (in whole updates, but
    # at least one) and, if given, so many minutes of training (compiling before it is not counted;
    # evaluations and checkpoints in its midst are).
    config.total_timesteps = 10_000_000
    config.time_limit_minutes = config_dict.placeholder(float)

    # Gradient steps of an update: 4 minibatches in 4 epochs at 256 x 128. Larger batches are split
    # into more minibatches and seen fewer times: 2048 x 128 is 32 minibatches in 2 epochs.
    config.num_minibatches = config_dict.placeholder(int)
    config.update_epochs = config_dict.placeholder(int)
    # Adam's learning rate: 2.5e-4 at up to 16 gradient steps an update, half of it at twice as
    # many, and so on: 6.25e-5 at 2048 x 128.
    config.lr = config_dict.placeholder(float)
    config.anneal_lr = False  # linearly to 0 over total_timesteps

    # PPO.
    config.gamma = 0.99  # discount
    config.gae_lambda = 0.95
    config.clip_eps = 0.2
    config.vf_coef = 0.5
    # A weight below 0.1 was said to let the entropy collapse with these settings; with those of the
    # other files, which have 0.02 or less, it was not seen to.
    config.ent_coef = 0.15
    # What it becomes, linearly over total_timesteps; without one it stays. To keep the weight
    # constant where the configuration file sets this, set it equal to ent_coef.
    config.ent_coef_end = config_dict.placeholder(float)
    config.max_grad_norm = 0.5
    # Leave out updates whose losses or gradients are not finite, and count them; otherwise the run
    # ends there.
    config.skip_nonfinite = False
    # Rewards range from -10 to over 500: the critic learns returns in units of their running root
    # mean square. The rewards stay as they are. A run keeps to it, as what the critic has learned
    # is in that unit.
    config.scale_returns = True
    # Learn from potential-based shaping in place of the game's own reward for each step towards the
    # exit, which pays for going back and forth, and leave out what a player who has UNDO could earn
    # again and again. What is reported is always the game's reward.
    config.potential_shaping = False
    # Learn from symlog(r) = sign(r) log(1 + |r|) of each reward: completing a stage is worth twice
    # as much as the one before. Otherwise rare victories dominate the value scale, and the critic
    # cannot distinguish ordinary steps. What is reported is always the game's reward.
    config.compress_rewards = False
    # Extra reward in training for each program acquired, at the start of a run: who collects
    # programs finds out what they are for. It moves linearly to owned_reward_end by mid-run and
    # stays there. Looking ahead, in training and in play, counts only owned_reward_end: it is then
    # that programs are needed most. With algorithm="expert" the two should be equal, as values
    # count both and its search only the second.
    config.owned_reward = 0.0
    config.owned_reward_end = 0.0

    # Expert iteration: the boards that are looked at before each action.
    config.simulations = 16

    # Begin with what another agent has learned: policies/NAME, or a folder that launch.export
    # wrote, such as runs/NAME/exported. The networks are the same but for compute_dtype; this
    # run's may also be wider (hidden_dim), and then plays as the other does until it learns.
    config.start_from = config_dict.placeholder(str)

    # The network, below a head for the policy and one for the value: "mlp", "centred" (an MLP over
    # the board laid out around the player), "conv" (3x3 over the cells), "cells" (attention among
    # the cells), or "MODULE:NAME" of your own.
    config.network = "mlp"
    config.hidden_dim = 256  # features: the width of an MLP, and of what reads the board otherwise
    config.num_layers = 2  # of an MLP, convolutions, or blocks of attention
    config.channels = 32  # numbers of each cell, in networks over cells
    config.separate_critic = False  # a torso of its own for the value
    # Turn each board, before the network sees it, until the exit lies above the player and to its
    # right: what is learned of one direction is known of all.
    config.turn_boards = False
    # Or "bfloat16", for the torso's matrix products. By JAX's default, which the torso leaves as it
    # is, products of float32 are rounded, too: on a TPU to bfloat16, on newer NVIDIA GPUs to TF32.
    config.compute_dtype = "float32"

    # Updates between two looks at the run: metrics, checkpoints and signals wait for their end.
    config.log_interval = 10

    # A checkpoint every so many minutes, or every so many updates if given; the newest are kept.
    config.save_interval_minutes = 10.0
    config.save_interval = config_dict.placeholder(int)
    config.keep_checkpoints = 3
    # Besides the newest and the best, at most so many are kept that are spread over the run so far,
    # and at least half as many once there are; 0 keeps none.
    config.keep_milestones = 10
    config.checkpoint_dir = "checkpoints"  # below the run directory

    # End the process, to be started again, when no chunk of updates was finished for so long.
    config.watchdog_minutes = 20.0
    # Compare the parameters that the devices have every so many updates: they must be equal.
    config.replica_check_interval = 1000

    # Every so many minutes, and at the end of a run that takes as long, play so many games, always
    # the same ones, for curves under eval/ of what is learned; 0 never does. The best checkpoint by
    # them is kept besides the newest.
    config.eval_interval_minutes = 10.0
    config.eval_games = 256  # as many as at the end need one compiled program less
    # Games to play at the end, beside a player that takes any valid action; 0 for none.
    config.eval_episodes = 256

    # The run's name; generated names are hackmatrix-jax-YYMMDD-N, then the suffix if there is one.
    config.run_name = config_dict.placeholder(str)
    config.run_suffix = config_dict.placeholder(str)
    # Continue a run: its name, its directory, or "auto" for the one of that run_name or, without
    # one, the one that was begun or saved last. What is given then, by flags or by --config=FILE,
    # takes the place of what the run had. What was never given is chosen for the devices found;
    # what makes it the run that it is, such as the seed and the network, cannot change.
    config.resume = config_dict.placeholder(str)

    # Weights & Biases, beside TensorBoard and metrics.jsonl. The newest checkpoint is uploaded
    # whenever it is a tenth later than the last that was, and at the end: about 70 in a month. With
    # WANDB_MODE=offline none is, as wandb would keep copies of them all on this disk.
    config.wandb = False
    config.rewind = False  # when resuming, erase there what was logged after the checkpoint
    config.project = "hackmatrix"
    config.entity = config_dict.placeholder(str)
    config.no_artifact = False  # do not upload checkpoints

    return Settings(config)
