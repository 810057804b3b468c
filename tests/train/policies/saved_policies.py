"""A run with a checkpoint of an untrained policy, as a run leaves it behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.parallel import mesh as meshes
from hackmatrix.rl.draws import seed_key
from hackmatrix.rl.learning.return_scale import ReturnScale
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.checkpoints.checkpoints import Checkpoints
from hackmatrix.train.program import Program
from hackmatrix.train.runs.directory import Run, create
from tests.train.settings import resolved

STEP = 4096
UNIT = 4.0


def saved_run(workdir: Path, env: str = "hackmatrix", name: str = "saved") -> Run:
    """Saves a run. Its players are stand-ins, as no policy needs them; its actor's logits are
    scaled up, so that its policy is far from uniform.
    """
    config = resolved(env=env, hidden_dim=16, run_name=name, num_envs=64, num_steps=64)
    program = Program(config, meshes.over(jax.devices()[:1]))
    learner = learned(program)
    found = create(workdir, config)
    checkpoints = Checkpoints(found.checkpoints, keep=3)
    players: Any = {"boards": jnp.arange(7)}
    checkpoints.save(STEP, TrainState(learner, players), {})
    checkpoints.wait()
    return found


def learned(program: Program) -> Any:
    learner = program.algorithm.init(seed_key(3))
    layers = learner.params["params"]
    actor = {"kernel": 200 * layers["actor"]["kernel"], "bias": layers["actor"]["bias"] + 0.1}
    return learner.replace(
        params={"params": {**layers, "actor": actor}},
        return_scale=ReturnScale(jnp.float32(UNIT**2), jnp.float32(1)),
        update=jnp.int32(1),
    )
