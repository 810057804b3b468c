"""Policies by name: the one of a run's newest good checkpoint, or one that was exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from hackmatrix.envs import Environment, make
from hackmatrix.parallel import mesh as meshes
from hackmatrix.ppo import draws, returns
from hackmatrix.ppo.network import ActorCritic
from hackmatrix.ppo.update import Learner
from hackmatrix.train import arrays, run
from hackmatrix.train.arrays import About, PolicyFileError
from hackmatrix.train.checkpoints import CheckpointError, Checkpoints
from hackmatrix.train.program import TrainState
from hackmatrix.train.run import Run, RunError


class PolicyError(Exception):
    """There is no such policy; one line says why."""


@dataclass(frozen=True)
class Policy:
    """A network with its parameters, what it plays, and where it is from. Its values are in units
    of reward.
    """

    env: Environment
    network: ActorCritic
    params: Any
    source: str
    step: int


def load(
    workdir: str | Path, run_name: str | None, file: str | None, say: Callable[[str], None]
) -> Policy:
    """The policy of the run of this name, or of this file; exactly one of them is given."""
    try:
        if file:
            return of_file(Path(file))
        found = run.find(workdir, str(run_name))
        if found is None:
            raise PolicyError(f"no run in {workdir} has saved a checkpoint")
        return of_run(found, say)
    except (RunError, CheckpointError, PolicyFileError) as error:
        raise PolicyError("; ".join(str(error).splitlines())) from error


def of_run(found: Run, say: Callable[[str], None] = print) -> Policy:
    """From the newest good checkpoint; only its parameters are read."""
    config = found.config
    env = make(config.env)
    network = ActorCritic(
        env.num_actions, config.hidden_dim, config.num_layers, config.compute_dtype
    )
    place = meshes.same(meshes.over(jax.local_devices()[:1]))
    nothing: Any = None
    learner = Learner(
        params=_placed(_shapes(env, network), place),
        return_scale=_placed(jax.eval_shape(returns.unknown), place),
        optimiser=nothing, update=nothing, key=nothing,
    )  # fmt: skip
    wanted = TrainState(learner=learner, players=nothing)
    checkpoints = Checkpoints(found.checkpoints, keep=config.keep_checkpoints, say=say)
    restored = checkpoints.restore_newest(wanted)
    if restored is None:
        raise PolicyError(f"{found.directory} has no checkpoint yet")
    return of_learner(env, network, restored.state.learner, found.name, restored.step)


def of_learner(
    env: Environment, network: ActorCritic, learner: Learner, source: str, step: int
) -> Policy:
    """What it has learned; its other parts are not needed."""
    params = _valued(learner.params, learner.return_scale.unit)
    return Policy(env, network, params, source, step)


def of_file(file: Path) -> Policy:
    """From the plain arrays that an export wrote."""
    params, about = arrays.read(file)
    env = make(about.env)
    network = ActorCritic(env.num_actions, about.hidden_dim, about.num_layers, about.compute_dtype)
    return Policy(env, network, params, about.run, about.step)


def about(policy: Policy) -> About:
    """What an export says of the policy besides its parameters."""
    network = policy.network
    return About(
        env=policy.env.name,
        run=policy.source,
        step=policy.step,
        compute_dtype=network.compute_dtype,
        hidden_dim=network.hidden_dim,
        num_layers=network.num_layers,
    )


def _shapes(env: Environment, network: ActorCritic) -> Any:
    return jax.eval_shape(network.init, draws.seed_key(0), jnp.zeros((1, env.observation_size)))


def _placed(shapes: Any, place: NamedSharding) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes
    )


def _valued(params: Any, unit: jax.Array) -> Any:
    """With a critic that speaks in units of reward, as others know no other unit."""
    layers = params["params"]
    critic = jax.tree.map(lambda leaf: leaf * unit, layers["critic"])
    return {"params": {**layers, "critic": critic}}
