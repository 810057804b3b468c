"""The training program learns a well-known task."""

from __future__ import annotations

import jax

from hackmatrix.parallel import mesh
from hackmatrix.rl.tally import RETURN
from hackmatrix.train.program import Program
from tests.train.settings import resolved


def test_cartpole_is_balanced() -> None:
    """In under 200,000 steps, which take a few seconds."""
    config = resolved(
        env="gymnax:CartPole-v1",
        auto_tune=False,
        num_envs=32,
        num_steps=64,
        lr=1e-3,
        hidden_dim=64,
        ent_coef=0.01,
    )
    program = Program(config, mesh.over(jax.devices()[:1]))
    state, returns = program.first_state(), [0.0]
    while returns[-1] < 475 and len(returns) * 10 * config.batch_size < 200_000:
        state, report = program.run(state, 10)
        returns.append(float(report.metrics[RETURN]))
    print(f"mean return of each {10 * config.batch_size:,} steps: {returns[1:]}")
    assert returns[-1] >= 475
