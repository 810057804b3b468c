"""One rollout and one update of the toy environment, on one device."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from hackmatrix.ppo import advantages, draws, returns, rollout, tally
from hackmatrix.networks.actor_critic import ActorCritic, outputs
from hackmatrix.ppo.settings import Settings
from hackmatrix.rl.tally import Tally
from hackmatrix.ppo.algorithm import Learner, learn, optimiser
from tests.ppo.toy import Toy

AXIS = "envs"
BOARDS = 12


def settings(**changes: Any) -> Settings:
    values: dict[str, Any] = {
        "num_steps": 16, "group_envs": 3, "num_minibatches": 4, "update_epochs": 3, "gamma": 0.9,
        "gae_lambda": 0.8, "clip_eps": 0.1, "vf_coef": 0.5, "ent_coef": 0.02, "max_grad_norm": 0.3,
        "lr": 0.01, "decay_updates": None, "scale_returns": True,
    }  # fmt: skip
    return Settings(**{**values, **changes})


@dataclass
class Played:
    """A rollout and what was learned from it."""

    env: Toy
    network: ActorCritic
    settings: Settings
    before: Learner
    players: rollout.Players
    batch: rollout.Batch
    last_values: jax.Array
    advantage: jax.Array
    counted: Tally
    metrics: dict[str, jax.Array]
    after: Learner
    losses: dict[str, jax.Array]


def on_one_device(function: Any, *args: Any) -> Any:
    mesh = Mesh(jax.devices()[:1], (AXIS,))
    spec = PartitionSpec()
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )(*args)


def new_learner(env: Toy, network: ActorCritic, used: Settings) -> Learner:
    key = draws.seed_key(3)
    params = network.init(jax.random.key(1), jnp.zeros((1, env.observation_size)))
    # A policy far from uniform, so that ratios, clipping and entropy all count.
    params["params"]["actor"]["kernel"] *= 100
    return Learner(params, optimiser(used).init(params), returns.unknown(), jnp.int32(5), key)


def play(truncates: bool) -> Played:
    env, used = Toy(truncates), settings()
    network = ActorCritic(env.num_actions, hidden_dim=16, num_layers=2)
    before = new_learner(env, network, used)
    players = rollout.begin(env, before.key, jnp.arange(BOARDS, dtype=jnp.uint32))

    def run(before: Learner, players: rollout.Players) -> Any:
        step = jax.eval_shape(env.step, jnp.zeros((BOARDS, 2), jnp.uint32), players.boards,
                              jnp.zeros(BOARDS, jnp.int32))[1]  # fmt: skip
        apply = functools.partial(outputs, network, before.params)
        _, batch, last, counted = rollout.collect(
            env, apply, players, before.key, before.update, used.num_steps, used.gamma,
            tally.empty(step),
        )  # fmt: skip
        advantage = advantages.estimate(
            batch.reward, batch.value, batch.ended, last, used.gamma, used.gae_lambda
        )
        after, losses = learn(
            env, network, used, AXIS, before, players.number, batch, advantage,
            advantage + batch.value,
        )  # fmt: skip
        return batch, last, advantage, counted, tally.read(counted, AXIS), after, losses

    return Played(env, network, used, before, players, *on_one_device(run, before, players))
