"""Whole games, some of them at a time: where one ends, the next begins in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import OF_GAMES
from hackmatrix.envs.protocol import Parts
from hackmatrix.rl import distributions, rollout
from hackmatrix.rl.draws import Purpose
from hackmatrix.rl.rollout import Players, UpdateKey
from hackmatrix.rl.tally import LENGTH, RETURN

Array = jax.Array
# From parameters and observations to logits and values.
Forward = Callable[[Any, Parts], tuple[Array, Array]]
# Plans actions i32[E] from parameters, keys [E], boards [E] and bool[E]: the boards that need one.
LookAhead = Callable[[Any, Array, Any, Array], Array]
ENDED, ACTIONS = OF_GAMES


class Choice(struct.PyTreeNode):
    """How an action is chosen among the valid ones: the likeliest if `greedy`, any of them with
    equal probability if `uniform`, else drawn from the policy.
    """

    greedy: Array | np.bool_
    uniform: Array | np.bool_


@dataclass(frozen=True)
class Actor:
    """A player without its parameters. With `look_ahead` it takes planned actions."""

    env: Environment
    network: Forward
    look_ahead: LookAhead | None = None


class Games(struct.PyTreeNode):
    """The results of games [N]."""

    ended: Array  # bool[N]: came to its own end within env.most_actions, and was not cut off
    result: dict[str, Array]  # f32[N] by tag
    actions: Array  # i32[N, A]: how often each action was taken


class Table(struct.PyTreeNode):
    """Places [E], in each of which a game is played."""

    players: Players
    game: Array  # i32[E]: the index of the game in each place; N where there is none
    begun: Array  # i32[1]: how many games have begun


class Playing(struct.PyTreeNode):
    """Games under way. Each array can be sharded over devices along its first axis."""

    table: Table
    played: Games
    is_going_on: Array  # bool[1]


def begin(actor: Actor, at_once: int, key: Array, numbers: Array) -> Playing:
    """Returns the state of games with these numbers [N], before the first has begun. At most
    `at_once` of them will be under way at a time.
    """
    games, places = numbers.size, min(at_once, numbers.size)
    kind = jax.eval_shape(lambda: rollout.new_players(actor.env, key, numbers[:places]))
    tags = [RETURN, LENGTH, *sorted(rollout.step_spec(actor.env, kind).each_episode)]
    table = Table(
        players=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), kind),
        game=jnp.full(places, games, jnp.int32),
        begun=jnp.zeros(1, jnp.int32),
    )
    played = Games(
        ended=jnp.zeros(games, bool),
        result={tag: jnp.zeros(games) for tag in tags},
        actions=jnp.zeros((games, actor.env.num_actions), jnp.int32),
    )
    return Playing(table, played, jnp.ones(1, bool))


def play(
    actor: Actor,
    steps: int,
    choice: Choice,
    params: Any,
    key: Array,
    playing: Playing,
    numbers: Array,
) -> Playing:
    """Plays up to `steps` further steps: of the games under way, and of those that follow them."""
    games = numbers.size

    def is_going_on(table: Table) -> Array:
        return (table.begun[0] < games) | (table.game < games).any()

    def goes_on(carry: tuple[Array, Table, Games]) -> Array:
        done, table, _ = carry
        return (done < steps) & is_going_on(table)

    _, table, played = jax.lax.while_loop(
        goes_on,
        lambda carry: (carry[0] + 1, *_one_step(actor, choice, params, key, numbers, *carry[1:])),
        (jnp.int32(0), playing.table, playing.played),
    )
    return Playing(table, played, is_going_on(table)[None])


def _one_step(
    actor: Actor,
    choice: Choice,
    params: Any,
    key: Array,
    numbers: Array,
    table: Table,
    played: Games,
) -> tuple[Table, Games]:
    """Fills the empty places with new games, then plays one step of all games under way."""
    games = numbers.size
    table = _filled(actor.env, key, numbers, table)
    players = table.players
    action = _choose(actor, choice, params, key, table, table.game < games)
    keys = jax.random.key_data(_keys(key, Purpose.STEP, players))
    boards, outcome = actor.env.step(keys, players.boards, action)
    total, length = players.episode_return + outcome.reward, players.episode_length + 1
    ends = {RETURN: total, LENGTH: length, **outcome.each_episode}
    over = outcome.ended | (length >= actor.env.most_actions)
    finished = jnp.where(over, table.game, games)  # index N is out of bounds: dropped
    played = Games(
        ended=played.ended.at[finished].set(outcome.terminated, mode="drop"),
        result={
            tag: column.at[finished].set(ends[tag].astype(jnp.float32), mode="drop")
            for tag, column in played.result.items()
        },
        actions=played.actions.at[table.game, action].add(1, mode="drop"),
    )
    players = players.replace(boards=boards, episode_return=total, episode_length=length)
    game = jnp.where(over, games, table.game)
    return table.replace(players=players, game=game), played


def _filled(env: Environment, key: Array, numbers: Array, table: Table) -> Table:
    """Puts new games in the empty places, as long as there are any to begin."""
    games = numbers.size
    empty = table.game >= games
    following = table.begun[0] + jnp.cumsum(empty, dtype=jnp.int32) - 1
    begins = empty & (following < games)

    def fill(table: Table) -> Table:
        game = jnp.where(begins, following, table.game)
        number = numbers[jnp.minimum(game, games - 1)]
        new = rollout.new_players(env, key, number)

        def chosen(new: Array, old: Array) -> Array:
            return jnp.where(begins.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return Table(
            players=jax.tree.map(chosen, new, table.players),
            game=game,
            begun=table.begun + begins.sum(dtype=jnp.int32),
        )

    return jax.lax.cond(begins.any(), fill, lambda table: table, table)


def _choose(
    actor: Actor, choice: Choice, params: Any, key: Array, table: Table, wanted: Array
) -> Array:
    """Returns actions i32[E] for the boards of the table; those not `wanted` bool[E] may be any."""
    players = table.players
    boards = players.boards

    def from_policy() -> Array:
        observation, mask = actor.env.decode(actor.env.encode(boards))
        logits = jnp.where(choice.uniform, 0, actor.network(params, observation)[0])
        options = distributions.masked(logits, mask)
        drawn = distributions.sample(options, _keys(key, Purpose.ACT, players))
        return jnp.where(choice.greedy, options.mode(), drawn)

    look_ahead = actor.look_ahead
    if look_ahead is None:
        return from_policy()
    keys = _keys(key, Purpose.PLAN, players)
    return jax.lax.cond(
        choice.uniform, from_policy, lambda: look_ahead(params, keys, boards, wanted)
    )


def _keys(key: Array, purpose: Purpose, players: Players) -> Array:
    """Returns keys [E] of a purpose, each for the next step of its game."""
    step = players.episode_length.astype(jnp.uint32)
    return UpdateKey(key, 0).each(purpose, step, players.number)
