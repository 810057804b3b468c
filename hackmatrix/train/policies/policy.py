"""Loads policies by name: from a run's newest good checkpoint or its best, or from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix import networks, plugins, streams
from hackmatrix.envs import Environment, make
from hackmatrix.envs.protocol import in_parts
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.networks.files import About
from hackmatrix.parallel.gpus import takes_kernels
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.train.config.rules import AUTO
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import one_line_errors
from hackmatrix.train.runs.provenance import changed_modules, own_modules


@dataclass(frozen=True, eq=False)
class Policy:
    """A network with its parameters, its environment, where it is from, and the reward signal it
    learned from. Its values are in units of reward.
    """

    env: Environment
    network: Network
    params: Params = field(repr=False)  # a few hundred thousand numbers
    source: str
    step: int
    signal: RewardSignal
    is_best: bool = False  # of the evaluated checkpoints of its run

    @property
    def title(self) -> str:
        return f"{self.source} at step {self.step:,}" + (", its best" if self.is_best else "")

    def playing(self, greedy: bool, plan: int) -> str:
        """Returns the title and how actions are chosen, unless they are drawn as usual."""
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
    """Loads the policy of this file, or of the run of this name if no file is given; of the latest
    run if neither is. Either may be a policy that comes with the trainer, policies/NAME. For a run
    it is the newest checkpoint's or, with `best`, that of the best evaluated one.
    """
    run_name = AUTO if run_name is None else run_name
    try:
        if named := file or (files.is_shipped(run_name) and run_name):
            if best:
                raise UserError(f"{named} is one policy; only a run has a best one")
            return of_file(named)
        found = directory.find(workdir, run_name, or_agent=True)
        if found is None:
            raise UserError(f"no run in {workdir} has saved a checkpoint")
        return of_run(found, say, best=best)
    except UserError as error:
        raise UserError("; ".join(str(error).splitlines())) from error


def of_run(found: Run, say: Callable[[str], None] = streams.say, *, best: bool = False) -> Policy:
    """Loads a run's newest good checkpoint, or its best, of which only the learner is read."""
    # Imported only here: a policy from a file needs neither checkpoints nor the trainer.
    from hackmatrix.parallel import mesh as meshes
    from hackmatrix.rl.train_state import TrainState
    from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
    from hackmatrix.train.program import Program

    if isinstance(found.checkpoints, Disk):
        with one_line_errors(str(found.place), "; rename the directory, or link to it"):
            found.checkpoints.check_name()
    config = found.config
    if config.kernels:  # it was set for the machine that trains
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
            f"{found.place} has no evaluated checkpoint (eval_interval_minutes) yet, so no best "
            "one; use the newest instead"
        )
    params = program.acting(restored.state.learner)
    if own_modules(config) and (changed := changed_modules(directory.starts(found), config)):
        say(f"{', '.join(changed)}: changed since {found.name} was trained; it may play otherwise")
    signal = RewardSignal.of(found.config)
    return Policy(program.env, program.network, params, found.name, restored.step, signal, best)


def of_file(file: str | Path) -> Policy:
    """Loads a policy from the plain arrays that an export wrote."""
    params, about = files.read(file)
    env = make(about.env).on(jax.default_backend(), takes_kernels(jax.local_devices()[0]))
    about.check_plays(env, str(file))
    signal = RewardSignal.of(about)
    source = str(file) if files.is_shipped(str(file)) else about.run
    network = networks.make(about.spec, env)
    params = network.fitted(params, str(file))
    policy = Policy(env, network, params, source, about.step, signal)
    if about.example:
        what = f"{file} does not fit network={about.spec.network}, which has changed since"
        with plugins.as_user_error(what):
            about.check_example(outputs(policy, np.array([about.example[0]], np.float32))[0][0])
    return policy


def outputs(policy: Policy, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the exact logits f32[B, A] and values f32[B] of observations f32[B, N]."""
    parts = in_parts(jnp.asarray(seen), policy.env.observation)
    logits, value = policy.network.exactly(policy.params, parts)
    return np.asarray(logits), np.asarray(value)


def about(policy: Policy) -> About:
    """Returns what an export stores of the policy besides its parameters."""
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
