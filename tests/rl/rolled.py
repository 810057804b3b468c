"""A rollout of the toy environment by an untrained network, on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from hackmatrix import networks
from hackmatrix.envs import Environment
from hackmatrix.networks import Spec
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.rl import draws, rollout, tally
from hackmatrix.rl.rollout import Batch, Players, UpdateKey
from tests.envs.toy import Toy

AXIS = "envs"
BOARDS, STEPS = 12, 16
UPDATE_KEY = UpdateKey(draws.seed_key(3), 5)


def mlp(env: Environment, hidden_dim: int = 16, num_layers: int = 2) -> Network:
    spec = Spec("mlp", hidden_dim, num_layers, 1, separate_critic=False, compute_dtype="float32")
    return networks.make(spec, env)


def peaked_params(network: Network) -> Params:
    """Returns parameters of a policy far from uniform, so ratios, clipping and entropy matter."""
    params = network.init(jax.random.key(1))
    params["params"]["actor"]["kernel"] *= 100
    return params


def on_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles the function for a mesh of one device."""
    mesh = Mesh(jax.devices()[:1], (AXIS,))
    spec = PartitionSpec()
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )


@dataclass
class Rollout:
    """A rollout: the players before and after it, its batch and its metrics."""

    env: Toy
    network: Network
    params: Params
    players: Players
    after: Players
    batch: Batch
    metrics: dict[str, jax.Array]


def collect_rollout(
    truncates: bool,
    limit: int = 0,
    boards: int = BOARDS,
    packs_small_arrays: bool = False,
    puts_boards_last: bool = False,
    kind: type[Toy] = Toy,
) -> Rollout:
    env = kind(truncates).limited(limit)
    env.packs_small_arrays = packs_small_arrays
    env.puts_boards_last = puts_boards_last
    network = mlp(env)
    params = peaked_params(network)
    players = rollout.new_players(env, UPDATE_KEY.key, jnp.arange(boards, dtype=jnp.uint32))

    def run(params: Params, players: Players) -> Any:
        counted = tally.empty(rollout.step_spec(env, players), env.cuts_off)
        after, batch, counted = rollout.collect(
            env, lambda parts: network(params, parts), UPDATE_KEY, STEPS, players, counted
        )
        return after, batch, tally.read(counted, AXIS)

    return Rollout(env, network, params, players, *on_one_device(run)(params, players))
