"""How well a policy plays: whole games, each one reproducible from (policy, seed, number)."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh

from hackmatrix.envs import Environment
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.mesh import SAME, SPLIT
from hackmatrix.ppo import policy, rollout
from hackmatrix.ppo.draws import seed_key
from hackmatrix.ppo.network import ActorCritic, outputs
from hackmatrix.ppo.rollout import Players
from hackmatrix.ppo.tally import LENGTH, RETURN

Array = jax.Array
EVALUATION_SEED = 1_000_003  # of the games that a run plays at its end
MOST_STEPS = 2000  # of a game: a policy may walk to and fro for ever


class Games(struct.PyTreeNode):
    """Games [E], one a player; what they ended with."""

    players: Players
    ended: Array  # bool[E]
    result: dict[str, Array]  # f32[E] by the names of the metrics
    actions: Array  # i32[E, A]: how often each was taken


class Evaluation:
    """Plays on all devices of a mesh; compiled once for any parameters."""

    def __init__(self, env: Environment, network: ActorCritic, mesh: Mesh):
        self._mesh = mesh
        play = functools.partial(_play, env, network)
        # Devices play on their own, for as many steps as their longest game, and tell each other
        # nothing: there is no communication whose types could be checked.
        self._play = jax.jit(
            jax.shard_map(
                play,
                mesh=mesh,
                in_specs=(SAME, SAME, SAME, SPLIT),
                out_specs=SPLIT,
                check_vma=False,
            )
        )

    def play(
        self, params: Any, seed: int, games: int, greedy: bool = False
    ) -> dict[str, np.ndarray]:
        """What each of the games [games] ended with; "actions" [games, A] is how often each was
        taken, "ended" whether it came to its end in MOST_STEPS.
        """
        places = -(-games // self._mesh.size) * self._mesh.size
        split, same = meshes.split(self._mesh), meshes.same(self._mesh)
        numbers = meshes.placed(np.arange(places, dtype=np.uint32), split)
        key = jax.jit(lambda: seed_key(seed), out_shardings=same)()
        params = meshes.placed(params, same)
        done = self._play(np.bool_(greedy), params, key, numbers)
        columns = {**done.result, "actions": done.actions, "ended": done.ended}
        return {name: column[:games] for name, column in meshes.fetched(columns).items()}


def uniform(params: Any) -> Any:
    """The parameters of the policy that takes every valid action equally often."""
    return jax.tree.map(jnp.zeros_like, params)


def beside_random(
    evaluation: Evaluation, params: Any, seed: int, games: int, greedy: bool = False
) -> dict[str, dict[str, np.ndarray]]:
    """The games of the agent, and those of a player that takes any valid action."""
    return {
        "agent": evaluation.play(params, seed, games, greedy),
        "random": evaluation.play(uniform(params), seed, games),
    }


def _play(
    env: Environment, network: ActorCritic, greedy: Array, params: Any, key: Array, numbers: Array
) -> Games:
    players = rollout.begin(env, key, numbers)
    step = functools.partial(_step, env, network, greedy, params, key)
    nothing = jnp.zeros_like(players.episode_length)
    names = [RETURN, LENGTH, *_results_named(env, players)]
    games = Games(
        players=players,
        ended=nothing > 0,
        result=dict.fromkeys(names, nothing),
        actions=jnp.zeros((numbers.size, env.num_actions), jnp.int32),
    )

    def is_going_on(carry: tuple[Array, Games]) -> Array:
        number, games = carry
        return (number < MOST_STEPS) & ~games.ended.all()

    return jax.lax.while_loop(is_going_on, step, (jnp.uint32(0), games))[1]


def _step(
    env: Environment,
    network: ActorCritic,
    greedy: Array,
    params: Any,
    key: Array,
    carry: tuple[Array, Games],
) -> tuple[Array, Games]:
    number, games = carry
    players = games.players
    act, happen = rollout.step_keys(key, 0, number, players)
    observation, mask = env.decode(env.encode(players.boards))
    choice = policy.masked(outputs(network, params, observation)[0], mask)
    action = jnp.where(greedy, choice.mode(), policy.sample(choice, act))
    boards, outcome = env.step(happen, players.boards, action)
    counts = ~games.ended
    total = players.episode_return + outcome.reward * counts
    length = players.episode_length + counts
    ends = {RETURN: total, LENGTH: length, **outcome.each_episode}
    taken = jax.nn.one_hot(action, env.num_actions, dtype=jnp.int32) * counts[:, None]
    return number + 1, Games(
        players=players.replace(boards=boards, episode_return=total, episode_length=length),
        ended=games.ended | outcome.ended,
        result={
            name: jnp.where(counts, ends[name].astype(jnp.float32), kept)
            for name, kept in games.result.items()
        },
        actions=games.actions + taken,
    )


def _results_named(env: Environment, players: Players) -> list[str]:
    return sorted(rollout.kind_of_step(env, players).each_episode)
