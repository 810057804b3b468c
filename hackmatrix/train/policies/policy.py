"""Policies by name: of a run's newest good checkpoint or its best one, or one that was exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from hackmatrix import networks, streams
from hackmatrix.envs import Environment, make
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.networks.files import About
from hackmatrix.parallel.gpus import takes_kernels
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.directory import Run


@dataclass(frozen=True)
class Policy:
    """A network with its parameters, what it plays, where it is from, and what it learned from. Its
    values are in units of reward.
    """

    env: Environment
    network: Network
    params: Params = field(repr=False)  # a few hundred thousand numbers
    source: str
    step: int
    signal: RewardSignal
    is_best: bool = False  # of those that its run measured and kept

    @property
    def title(self) -> str:
        return f"{self.source} at step {self.step:,}" + (", its best" if self.is_best else "")

    def playing(self, greedy: bool, plan: int) -> str:
        """The title, and in which way it plays; nothing is said of drawing its actions."""
        way = f", {plan:,} games per move" if plan else ", the likeliest actions" if greedy else ""
        return self.title + way


def load(
    workdir: str | Path,
    run_name: str | None,
    file: str | None,
    say: Callable[[str], None],
    *,
    best: bool = False,
) -> Policy:
    """The policy of this file, or of the run of this name if no file is given. Either may be a
    policy that comes with the trainer, policies/NAME. A run's is the newest, or the best of those
    that it measured.
    """
    try:
        if named := file or (files.is_shipped(str(run_name)) and run_name):
            if best:
                raise UserError(f"{named} is one policy; only a run has a best one")
            return of_file(named)
        found = directory.find(workdir, str(run_name), or_agent=True)
        if found is None:
            raise UserError(f"no run in {workdir} has saved a checkpoint")
        return of_run(found, say, best=best)
    except UserError as error:
        raise UserError("; ".join(str(error).splitlines())) from error


def of_run(found: Run, say: Callable[[str], None] = streams.say, *, best: bool = False) -> Policy:
    """The policy of the newest good checkpoint or the best, of which only the learner is read."""
    # Only now: a policy of a file needs neither checkpoints nor what trains.
    from hackmatrix.parallel import mesh as meshes
    from hackmatrix.rl.train_state import TrainState
    from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
    from hackmatrix.train.program import Program

    config = found.config
    if config.kernels:  # which was said of the machine that trains it
        config = replace(config, kernels=None)
    program = Program(config, meshes.over(jax.local_devices()[:1]))
    nothing: Any = None
    wanted = TrainState(learner=program.learner_shapes, players=nothing)
    checkpoints = Checkpoints(found.checkpoints, keep=found.config.keep_checkpoints, say=say)
    restore = checkpoints.restore_best if best else checkpoints.restore_newest
    restored = restore(Layout(wanted))
    if restored is None:
        if not best:
            raise UserError(f"{found.place} has no checkpoint yet")
        raise UserError(
            f"{found.place} has no checkpoint that was measured (eval_interval_minutes) yet, and "
            "so no best one; ask for the newest instead"
        )
    params = program.acting(restored.state.learner)
    signal = RewardSignal.of(found.config)
    return Policy(program.env, program.network, params, found.name, restored.step, signal, best)


def of_file(file: str | Path) -> Policy:
    """The policy in the plain arrays that an export wrote."""
    params, about = files.read(file)
    env = make(about.env).on(jax.default_backend(), takes_kernels(jax.local_devices()[0]))
    about.check_plays(env, str(file))
    signal = RewardSignal.of(about)
    source = str(file) if files.is_shipped(str(file)) else about.run
    network = networks.make(about.spec, env)
    params = network.fitted(params, str(file))
    return Policy(env, network, params, source, about.step, signal)


def about(policy: Policy) -> About:
    """What an export says of the policy besides its parameters."""
    network = policy.network.spec.network
    return About(
        env=policy.env.name,
        observation=dict(policy.env.observation),
        actions=policy.env.action_names,
        run=policy.source,
        step=policy.step,
        spec=policy.network.spec,
        in_numpy=None if network in networks.NETWORKS else networks.numpy_address(network),
        landmark=None if (of_env := policy.env.landmark) is None else int(of_env),
        **asdict(policy.signal),
    )
