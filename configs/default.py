"""Every setting of the trainer, with its default. The other files here are small changes to this.

A placeholder has no value unless you give it one. Without one, num_envs, num_steps and kernels are
chosen for the devices found; num_minibatches, update_epochs and lr follow from the sizes, and all
other placeholders mean "none". What you give is never changed. None takes a value away again that
a file gives to a placeholder.

    python -m launch.train --config.ent_coef=0.2 --config.num_envs=1024
    python -m launch.train --config=configs/cpu.py --config.seed=1
    python -m launch.train --config=configs/cpu.py --config.time_limit_minutes=None
"""

from ml_collections import config_dict

from configs import Settings


def get_config() -> config_dict.ConfigDict:
    config = config_dict.ConfigDict()

    # The environment: "hackmatrix", "gymnax:NAME" such as "gymnax:CartPole-v1", or your own as
    # "MODULE:NAME" or "MODULE:NAME(KEY=VALUE, ...)", on Python's path.
    config.env = "hackmatrix"
    # Training truncates a game after so many actions, as agents may go back and forth for ever; 0
    # never does. A truncated game counts as an episode, and its return is bootstrapped from the
    # value of its last board.
    config.episode_limit = 0
    # Whether a step of the game is one kernel. None: yes on TPUs and on NVIDIA GPUs from Hopper
    # (H100) on, no elsewhere. True forces it (interpreted on a CPU, refused on older GPUs), False
    # disables it.
    config.kernels = config_dict.placeholder(bool)
    # The algorithm: "ppo", "expert" (expert iteration: the network learns what a search that it
    # guides finds), or your own as "MODULE:NAME".
    config.algorithm = "ppo"
    # The same seed gives the same run, on any number of devices (with float32, see compute_dtype).
    config.seed = 0
    # Train so many agents, one after the other, with this seed and those that follow it, and report
    # their mean results. The runs are called RUN_NAME-seedN.
    config.num_seeds = 1

    # The batch of an update: environments over all devices, times steps of a rollout. Unless given,
    # with auto_tune 64 x 64 on a CPU and 512 x 128 per GPU or TPU chip; without it 256 x 128.
    config.auto_tune = True
    config.num_envs = config_dict.placeholder(int)
    config.num_steps = config_dict.placeholder(int)
    # How long to train, over all starts of the run: at most so many environment steps (in whole
    # updates, but at least one) and, if given, so many minutes (compilation at the start does not
    # count; evaluations and checkpoints during training do).
    config.total_timesteps = 10_000_000
    config.time_limit_minutes = config_dict.placeholder(float)

    # Minibatches and epochs of an update. Unless given, 4 minibatches in 4 epochs at 256 x 128;
    # larger batches have more minibatches and fewer epochs: 32 and 2 at 2048 x 128.
    config.num_minibatches = config_dict.placeholder(int)
    config.update_epochs = config_dict.placeholder(int)
    # Adam's learning rate. Unless given, 2.5e-4 at up to 16 gradient steps per update, half of it
    # at twice as many, and so on: 6.25e-5 at 2048 x 128.
    config.lr = config_dict.placeholder(float)
    config.anneal_lr = False  # linearly to 0 over total_timesteps

    # PPO.
    config.gamma = 0.99  # discount
    config.gae_lambda = 0.95
    config.clip_eps = 0.2
    config.vf_coef = 0.5
    # The weight of the entropy bonus. With these settings less than 0.1 was reported to let the
    # entropy collapse; with those of the other files, which have 0.02 or less, that was not seen.
    config.ent_coef = 0.15
    # The weight at the end, reached linearly over total_timesteps; None keeps it constant.
    config.ent_coef_end = config_dict.placeholder(float)
    config.max_grad_norm = 0.5
    # Skip updates whose losses or gradients are not finite, and count them; otherwise the run ends
    # there.
    config.skip_nonfinite = False
    # Rewards range from -10 to over 500, so the critic learns returns in units of their running
    # root mean square. The rewards themselves are not scaled. A resumed run cannot change this, as
    # its critic has learned in that unit.
    config.scale_returns = True
    # Learn from potential-based shaping in place of the game's own reward for each step towards the
    # exit, which pays for going back and forth. Leave out, too, what a player with UNDO could earn
    # again and again. What is reported is always the game's reward.
    config.potential_shaping = False
    # Learn from symlog(r) = sign(r) log(1 + |r|) of each reward. Completing a stage is worth twice
    # as much as the one before, so otherwise rare victories dominate the value scale, and the
    # critic cannot tell ordinary steps apart. What is reported is always the game's reward.
    config.compress_rewards = False
    # Extra reward in training for each program acquired: an agent that collects programs finds out
    # what they are for. It starts at owned_reward, moves linearly to owned_reward_end by mid-run,
    # and stays there. Looking ahead, in training and in play, counts only owned_reward_end: agents
    # that look ahead need programs most. With algorithm="expert" the two should be equal, as values
    # count both and its search only the second.
    config.owned_reward = 0.0
    config.owned_reward_end = 0.0

    # Expert iteration: how many boards its search visits before each action.
    config.simulations = 16

    # Start from the parameters of another agent: policies/NAME, or a folder that launch.export
    # wrote, such as runs/NAME/exported. The networks must be the same but for compute_dtype; this
    # run's may also be wider (hidden_dim), and then plays as the other does until it learns.
    config.start_from = config_dict.placeholder(str)

    # The network, below the policy and value heads: "mlp", "centred" (an MLP over the board laid
    # out around the player), "conv" (3x3 over the cells), "cells" (attention among the cells), or
    # your own as "MODULE:NAME" or "MODULE:NAME(KEY=VALUE, ...)".
    config.network = "mlp"
    config.hidden_dim = 256  # the width of an MLP, and of the layer that reads the cells
    config.num_layers = 2  # dense layers, convolutions, or blocks of attention
    config.channels = 32  # features of each cell, in networks over cells
    config.separate_critic = False  # a separate torso for the value
    # Turn each board, before the network sees it, until the exit lies above the player and to its
    # right: what is learned in one direction holds in all.
    config.turn_boards = False
    # The type of the torso's matrix products: "float32" or "bfloat16". At JAX's default precision,
    # which the torso keeps, factors in float32 are rounded too: on a TPU to bfloat16, on newer
    # NVIDIA GPUs to TF32.
    config.compute_dtype = "float32"

    # Updates in a chunk: metrics, checkpoints and signals wait for the end of the chunk.
    config.log_interval = 10

    # A checkpoint every so many minutes or, if given, every so many updates instead. The newest
    # keep_checkpoints are kept.
    config.save_interval_minutes = 10.0
    config.save_interval = config_dict.placeholder(int)
    config.keep_checkpoints = 3
    # Besides these and the best, keep at most so many that are spread over the run so far, and at
    # least half as many once the run has them; 0 keeps none.
    config.keep_milestones = 10
    config.checkpoint_dir = "checkpoints"  # below the run directory

    # End the process, to be started again, when no chunk of updates has finished for so long.
    config.watchdog_minutes = 20.0
    # Every so many updates compare the devices' copies of the parameters, which must be equal.
    config.replica_check_interval = 1000

    # Every so many minutes, and at the end of a run that takes as long, play eval_games games,
    # always the same ones, for the curves under eval/; 0 never does. The best checkpoint by them is
    # kept besides the newest.
    config.eval_interval_minutes = 10.0
    config.eval_games = 256  # one program less to compile if equal to eval_episodes
    # Games to play at the end, beside a player that takes any valid action; 0 for none.
    config.eval_episodes = 256

    # The run's name. Unless given it is hackmatrix-jax-YYMMDD-N, then the suffix if there is one.
    config.run_name = config_dict.placeholder(str)
    config.run_suffix = config_dict.placeholder(str)
    # Continue a run: its name, its directory, or "auto" for the one of that run_name or, without
    # one, the one that was begun or saved last. Settings given with it, by flags or by
    # --config=FILE, replace the run's own. What was never given is chosen for the devices found;
    # settings that define the run, such as the seed and the network, cannot change.
    config.resume = config_dict.placeholder(str)

    # Weights & Biases, besides TensorBoard and metrics.jsonl. The newest checkpoint is uploaded
    # whenever the run is a tenth longer than at the last upload, and at the end: about 70 in a
    # month. With WANDB_MODE=offline none is, as wandb would keep copies of them all on this disk.
    config.wandb = False
    config.rewind = False  # when resuming, delete there what was logged after the checkpoint
    config.project = "hackmatrix"
    config.entity = config_dict.placeholder(str)
    config.no_artifact = False  # do not upload checkpoints

    return Settings(config)
