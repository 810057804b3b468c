"""How well an agent plays: whole games, each one reproducible from (agent, seed, number)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import PERCENT, Metric, Section
from hackmatrix.envs.protocol import Parts
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.mesh import REPLICATED, SPLIT
from hackmatrix.rl import distributions, rollout, tally
from hackmatrix.rl.draws import seed_key
from hackmatrix.rl.rollout import Players, UpdateKey, planning_keys
from hackmatrix.rl.tally import LENGTH, RETURN

Array = jax.Array
# Logits and values of observations, with these parameters.
Forward = Callable[[Any, Parts], tuple[Array, Array]]
# Actions i32[E] that were planned with these parameters, from keys [E] and boards [E].
LookAhead = Callable[[Any, Array, Any], Array]
ENDED, ACTIONS = "ended", "actions"
SECTION = Section("How it plays", (Metric(ENDED, "came to an end", PERCENT),))
EVALUATION_SEED = 1_000_003  # of the games that a run plays meanwhile and at its end
MOST_STEPS = 2000  # of a game: an agent may walk to and fro for ever


def outcomes(env: Environment) -> list[Metric]:
    """What may be known of a whole episode."""
    return [*tally.SECTION.metrics, *env.metrics, *SECTION.metrics]


def curves(env: Environment) -> Section:
    """The same, measured now and then by games that are the same every time."""
    measured = [replace(each, tag=curve(each.tag), column="") for each in outcomes(env)]
    return Section("How it plays the same games", tuple(measured))


def curve(tag: str) -> str:
    """The tag of what is measured so: eval/mean_stage of stats/mean_stage."""
    return f"eval/{tag.rpartition('/')[2]}"


class Choice(struct.PyTreeNode):
    """How actions are chosen among the valid ones: drawn from the network's distribution, the
    likeliest, or any of them, all being equally likely.
    """

    greedy: Array | np.bool_
    uniform: Array | np.bool_


class Games(struct.PyTreeNode):
    """Games [E], one a player; what they ended with."""

    players: Players
    ended: Array  # bool[E]
    result: dict[str, Array]  # f32[E] by the tags of the metrics
    actions: Array  # i32[E, A]: how often each was taken


@dataclass(frozen=True)
class Agent:
    """What plays, but for its parameters. One that looks ahead takes planned actions."""

    env: Environment
    network: Forward
    look_ahead: LookAhead | None = None


class Evaluation:
    """Plays on all devices of a mesh; compiled once for any parameters."""

    def __init__(
        self, env: Environment, network: Forward, mesh: Mesh, look_ahead: LookAhead | None = None
    ) -> None:
        self._mesh = mesh
        # Devices play on their own, for as many steps as their longest game, and tell each other
        # nothing: there is no communication whose types could be checked.
        self._play = jax.jit(
            jax.shard_map(
                functools.partial(_play, Agent(env, network, look_ahead)),
                mesh=mesh,
                in_specs=(REPLICATED, REPLICATED, REPLICATED, SPLIT),
                out_specs=SPLIT,
                check_vma=False,
            )
        )

    def play(
        self, params: Any, seed: int, games: int, *, greedy: bool = False, uniform: bool = False
    ) -> dict[str, np.ndarray]:
        """What each of the games [games] ended with; "actions" [games, A] is how often each was
        taken, "ended" whether it came to its end in MOST_STEPS.
        """
        places = -(-games // self._mesh.size) * self._mesh.size
        split, replicated = meshes.split(self._mesh), meshes.replicated(self._mesh)
        numbers = meshes.placed(np.arange(places, dtype=np.uint32), split)
        key = jax.jit(lambda: seed_key(seed), out_shardings=replicated)()
        params = meshes.placed(params, replicated)
        done = self._play(Choice(np.bool_(greedy), np.bool_(uniform)), params, key, numbers)
        columns = {**done.result, ACTIONS: done.actions, ENDED: done.ended}
        return {name: column[:games] for name, column in meshes.fetched(columns).items()}

    def beside_random(
        self, params: Any, seed: int, games: int, *, greedy: bool = False, both: bool = False
    ) -> dict[str, dict[str, np.ndarray]]:
        """The games of the agent, and those of a player that takes any valid action; with `both`
        also those in which the agent takes the likeliest.
        """
        likeliest = {"agent_greedy": self.play(params, seed, games, greedy=True)} if both else {}
        return {
            "agent": self.play(params, seed, games, greedy=greedy),
            **likeliest,
            "random": self.play(params, seed, games, uniform=True),
        }


def _play(agent: Agent, choice: Choice, params: Any, key: Array, numbers: Array) -> Games:
    env = agent.env
    players = rollout.new_players(env, key, numbers)
    nothing = jnp.zeros_like(players.episode_length)
    tags = [RETURN, LENGTH, *sorted(rollout.kind_of_step(env, players).each_episode)]
    games = Games(
        players=players,
        ended=nothing > 0,
        result=dict.fromkeys(tags, nothing),
        actions=jnp.zeros((numbers.size, env.num_actions), jnp.int32),
    )

    def is_going_on(carry: tuple[Array, Games]) -> Array:
        step, games = carry
        return (step < MOST_STEPS) & ~games.ended.all()

    def one_step(carry: tuple[Array, Games]) -> tuple[Array, Games]:
        step, games = carry
        boards = games.players.boards
        action = _choose(agent, choice, params, (key, step, numbers), boards)
        _, happen = rollout.step_keys(UpdateKey(key, 0), step, numbers)
        boards, outcome = env.step(happen, boards, action)
        return step + 1, _counted(games, boards, action, outcome)

    return jax.lax.while_loop(is_going_on, one_step, (jnp.uint32(0), games))[1]


def _choose(
    agent: Agent, choice: Choice, params: Any, draw: tuple[Array, Array, Array], boards: Any
) -> Array:
    """Actions i32[E] for the boards. A draw is of a key, a step and the numbers of the games."""
    key, step, numbers = draw
    act, _ = rollout.step_keys(UpdateKey(key, 0), step, numbers)

    def at_once() -> Array:
        observation, mask = agent.env.decode(agent.env.encode(boards))
        logits = jnp.where(choice.uniform, 0, agent.network(params, observation)[0])
        options = distributions.masked(logits, mask)
        return jnp.where(choice.greedy, options.mode(), distributions.sample(options, act))

    look_ahead = agent.look_ahead
    if look_ahead is None:
        return at_once()
    keys = planning_keys(UpdateKey(key, 0), step, numbers)
    return jax.lax.cond(choice.uniform, at_once, lambda: look_ahead(params, keys, boards))


def _counted(games: Games, boards: Any, action: Array, outcome: Any) -> Games:
    """The games after a step; of those that have ended already, nothing more counts."""
    players, counts = games.players, ~games.ended
    total = players.episode_return + outcome.reward * counts
    length = players.episode_length + counts
    ends = {RETURN: total, LENGTH: length, **outcome.each_episode}
    taken = jax.nn.one_hot(action, games.actions.shape[1], dtype=jnp.int32) * counts[:, None]
    return Games(
        players=players.replace(boards=boards, episode_return=total, episode_length=length),
        ended=games.ended | outcome.ended,
        result={
            tag: jnp.where(counts, ends[tag].astype(jnp.float32), kept)
            for tag, kept in games.result.items()
        },
        actions=games.actions + taken,
    )
