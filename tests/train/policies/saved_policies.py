"""A run with a checkpoint of an untrained policy, as a run leaves it behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from configs import default
from hackmatrix.parallel import mesh as meshes
from hackmatrix.rl.return_scale import ReturnScale
from hackmatrix.ppo.algorithm import Learner
from hackmatrix.train import run
from hackmatrix.train.checkpoints.checkpoints import Checkpoints
from hackmatrix.train.config import resolve
from hackmatrix.train.program import Program, TrainState
from hackmatrix.train.runs.directory import Run

STEP = 4096
UNIT = 4.0


def saved_run(workdir: Path, env: str = "hackmatrix", name: str = "saved") -> Run:
    """Its optimiser and players are stand-ins, which no policy needs; its actor has opinions."""
    given = {"env": env, "hidden_dim": 16, "run_name": name, "num_envs": 64, "num_steps": 64}
    config = resolve({**default.get_config(), **given}, "cpu", 1)
    program = Program(config, meshes.over(jax.devices()[:1]))
    learner = learned(program)
    found = run.begin(workdir, config)
    checkpoints = Checkpoints(found.checkpoints, keep=3)
    players: Any = {"boards": jnp.arange(7)}
    checkpoints.save(STEP, TrainState(learner, players), {})
    checkpoints.close()
    return found


def learned(program: Program) -> Any:
    key = jax.random.key(3)
    params = program.network.init(key, jnp.zeros((1, program.env.observation_size)))
    layers = params["params"]
    actor = {"kernel": 200 * layers["actor"]["kernel"], "bias": layers["actor"]["bias"] + 0.1}
    nothing: Any = jnp.zeros(3)
    return Learner(
        params={"params": {**layers, "actor": actor}},
        optimiser=nothing,
        return_scale=ReturnScale(jnp.float32(UNIT**2), jnp.float32(1)),
        update=jnp.int32(1),
        key=key,
    )
