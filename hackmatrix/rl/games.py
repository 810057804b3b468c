"""Whole games, played some at a time: where one ends, the next begins in its place."""

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
# Logits and values of observations, with these parameters.
Forward = Callable[[Any, Parts], tuple[Array, Array]]
# Actions i32[E] that were planned with these parameters, from keys [E] and boards [E], and which
# of them are wanted bool[E].
LookAhead = Callable[[Any, Array, Any, Array], Array]
ENDED, ACTIONS = OF_GAMES


class Choice(struct.PyTreeNode):
    """How actions are chosen among the valid ones: drawn from the network's distribution, the
    likeliest, or any of them, all being equally likely.
    """

    greedy: Array | np.bool_
    uniform: Array | np.bool_


@dataclass(frozen=True)
class Actor:
    """What plays, but for its parameters. One that looks ahead takes planned actions."""

    env: Environment
    network: Forward
    look_ahead: LookAhead | None = None


class Games(struct.PyTreeNode):
    """What each of the games [N] came to."""

    ended: Array  # bool[N]: it came to its own end in env.most_actions, and was not cut off
    result: dict[str, Array]  # f32[N] by tag
    actions: Array  # i32[N, A]: how often each was taken


class Table(struct.PyTreeNode):
    """Places [E] for players. The one in a place plays its game, N where there is none."""

    players: Players
    game: Array  # i32[E]
    begun: Array  # i32[1]: the games that have begun, on all places


class Playing(struct.PyTreeNode):
    """Games under way. The axis of each array can be split over devices."""

    table: Table
    played: Games
    is_going_on: Array  # bool[1]


def begin(actor: Actor, at_once: int, key: Array, numbers: Array) -> Playing:
    """The games of these numbers [N], so many at a time, none of which has begun."""
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
    """Plays up to so many further steps of all unfinished games."""
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
    """A step of the games under way, after new ones have taken the empty places."""
    games = numbers.size
    table = _filled(actor.env, key, numbers, table)
    players = table.players
    action = _choose(actor, choice, params, key, table, table.game < games)
    keys = jax.random.key_data(_keys(key, Purpose.STEP, players))
    boards, outcome = actor.env.step(keys, players.boards, action)
    total, length = players.episode_return + outcome.reward, players.episode_length + 1
    ends = {RETURN: total, LENGTH: length, **outcome.each_episode}
    over = outcome.ended | (length >= actor.env.most_actions)
    told = jnp.where(over, table.game, games)  # what is told of game N is dropped
    played = Games(
        ended=played.ended.at[told].set(outcome.terminated, mode="drop"),
        result={
            tag: column.at[told].set(ends[tag].astype(jnp.float32), mode="drop")
            for tag, column in played.result.items()
        },
        actions=played.actions.at[table.game, action].add(1, mode="drop"),
    )
    players = players.replace(boards=boards, episode_return=total, episode_length=length)
    game = jnp.where(over, games, table.game)
    return table.replace(players=players, game=game), played


def _filled(env: Environment, key: Array, numbers: Array, table: Table) -> Table:
    """With new games in the empty places, as long as there are any."""
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
    """Actions i32[E] for the boards of the table; which of them are wanted bool[E]."""
    players = table.players
    boards = players.boards

    def at_once() -> Array:
        observation, mask = actor.env.decode(actor.env.encode(boards))
        logits = jnp.where(choice.uniform, 0, actor.network(params, observation)[0])
        options = distributions.masked(logits, mask)
        drawn = distributions.sample(options, _keys(key, Purpose.ACT, players))
        return jnp.where(choice.greedy, options.mode(), drawn)

    look_ahead = actor.look_ahead
    if look_ahead is None:
        return at_once()
    keys = _keys(key, Purpose.PLAN, players)
    return jax.lax.cond(choice.uniform, at_once, lambda: look_ahead(params, keys, boards, wanted))


def _keys(key: Array, purpose: Purpose, players: Players) -> Array:
    """The keys [E] of a purpose, each for a game's own next step."""
    step = players.episode_length.astype(jnp.uint32)
    return UpdateKey(key, 0).each(purpose, step, players.number)
