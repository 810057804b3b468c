"""One update of PPO on the toy environment, on one device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.networks.actor_critic import Network
from hackmatrix.ppo.algorithm import PPO, Learner
from hackmatrix.rl import draws, rollout, tally
from hackmatrix.rl.learning.return_scale import ReturnScale
from hackmatrix.rl.rollout import Batch, Players, UpdateKey
from tests.envs.toy import Toy
from tests.rl.rolled import AXIS, mlp, on_one_device, peaked_params

BOARDS = 12


@dataclass(frozen=True)
class Settings:
    """The settings that PPO reads from a configuration."""

    num_steps: int = 16
    group_envs: int = 3
    num_minibatches: int = 4
    update_epochs: int = 3
    num_updates: int = 10
    extra_updates: float = 0.0
    gamma: float = 0.9
    gae_lambda: float = 0.8
    clip_eps: float = 0.1
    vf_coef: float = 0.5
    ent_coef: float = 0.02
    ent_coef_at_end: float = 0.02
    max_grad_norm: float = 0.3
    lr: float = 0.01
    anneal_lr: bool = False
    scale_returns: bool = True
    potential_shaping: bool = False
    compress_rewards: bool = False
    owned_reward: float = 0.0
    owned_reward_end: float = 0.0
    starts_from_another: bool = False


@dataclass
class Played:
    """An update, with the batch that it played and learned from."""

    env: Toy
    network: Network
    settings: Settings
    before: Learner
    players: Players
    batch: Batch
    after: Learner
    metrics: dict[str, jax.Array]

    @property
    def update_key(self) -> UpdateKey:
        return UpdateKey(self.before.key, self.before.update)


def new_learner(algorithm: PPO) -> Learner:
    """Returns a learner in mid-run: after 5 updates, with returns that were about 2."""
    return algorithm.init(draws.seed_key(3)).replace(
        params=peaked_params(algorithm.network),
        return_scale=ReturnScale(jnp.float32(4 * 0.05), jnp.float32(0.05)),
        update=jnp.int32(5),
    )


def new_players(algorithm: PPO, learner: Learner, boards: int) -> Players:
    numbers = jnp.arange(boards, dtype=jnp.uint32)
    return rollout.new_players(algorithm.env, learner.key, numbers)


def play(truncates: bool, **changes: Any) -> Played:
    env, settings = Toy(truncates), dataclasses.replace(Settings(), **changes)
    algorithm = PPO(env, mlp(env), settings, AXIS)
    before = new_learner(algorithm)
    players = new_players(algorithm, before, BOARDS)

    def run(before: Learner, players: Players) -> Any:
        counted = tally.empty(rollout.step_spec(env, players))
        _, batch, _ = algorithm.play(before, players, counted)
        after, _, _, metrics = algorithm.update(before, players, counted)
        return batch, after, metrics

    done = on_one_device(run)(before, players)
    return Played(env, algorithm.network, settings, before, players, *done)
