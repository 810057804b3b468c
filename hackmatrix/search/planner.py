"""Looking ahead in play: games are played on from each action that the agent may well take, and
what they come to on average tells which one it is.

A player does not know all of a board. So games go on from boards that look the same to the player,
with what is hidden drawn anew for each. On each of these worlds every one of the actions is tried,
and meets the same chance as far as it can, so that luck does not decide between them. In short:
Monte-Carlo rollouts from determinised states, with TD(lambda) returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.game.tracing import on_cpu
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import fold_in
from hackmatrix.search.base import Found, Search, env_keys

if TYPE_CHECKING:
    import distrax

Array = jax.Array
# By docs/experiments.md, "What games played on are worth":
_STEPS = 32  # that a game is played on
_LAMBDA = 0.97  # how much more a return goes by what happens than by the values on the way
_CAUTION = 0.5  # standard errors by which an action must be better than the likeliest
_CONSIDERED, _LIKELY = 8, 0.002  # actions at most, and how likely at least
_TIMES = 2  # that each of them is tried at least: once tells nothing of luck
FEWEST = 2 * _TIMES  # games that tell two actions apart
MOST = 4096  # games, of which each takes memory
# Games that are played on side by side. A CPU is as fast with a few, and leaves out what it can.
_AT_ONCE, _AT_ONCE_ON_CPU = 16_384, 512


class _Dealt(struct.PyTreeNode):
    """Which games are played on [N] from each of [E] boards."""

    actions: Array  # i32[E, K]: the likeliest, and the likeliest of them first
    number: Array  # i32[E]: how many of these are tried
    world: Array  # i32[E, N]: where each game goes on
    which: Array  # i32[E, N]: of the actions it tries


@dataclass(frozen=True, eq=False)
class Planner(Search):
    """Plays so many games on before each move, dealt out among the likely actions."""

    games: int

    def __call__(self, params: Any, keys: Array, boards: Any, wanted: Array) -> Found:
        """The plan for each of [E] boards, from keys [E]; some action where none is wanted."""
        choice, value, mask = self.evaluate(params, self.env.encode(boards))
        dealt = self._dealt(choice, mask, wanted)
        returns, counts = self._in_turn(params, keys, boards, dealt)
        return _found(dealt, returns, counts, value, mask)

    def look_ahead(self, params: Any, keys: Array, boards: Any, wanted: Array) -> Array:
        """The best actions i32[E], as `hackmatrix.rl.games.LookAhead` gives them."""
        return self(params, keys, boards, wanted).action

    def _dealt(self, choice: distrax.Categorical, mask: Array, wanted: Array) -> _Dealt:
        """One game for each action on the first world, then on the second, and so on."""
        likely = jnp.where(mask, choice.probs, 0)
        considered = min(_CONSIDERED, self.games // _TIMES, mask.shape[-1])
        most, actions = jax.lax.top_k(likely, considered)
        several = (most >= _LIKELY).sum(-1, dtype=jnp.int32)
        number = jnp.where(wanted, jnp.maximum(1, several), 1)
        game = jnp.arange(self.games)
        return _Dealt(actions, number, game // number[:, None], game % number[:, None])

    def _in_turn(self, params: Any, keys: Array, boards: Any, dealt: _Dealt) -> tuple[Array, Array]:
        """`_played_on` for all boards, some at a time; those whose agent is certain come last, and
        are left out.
        """
        at_once = _AT_ONCE_ON_CPU if on_cpu() else _AT_ONCE
        number, size = keys.size, min(keys.size, max(1, at_once // self.games))
        certain = dealt.number == 1
        order = jnp.argsort(certain)
        places = jnp.pad(order, (0, -number % size), mode="edge")

        def some(places: Array) -> tuple[Array, Array]:
            of_these = jax.tree.map(lambda leaf: leaf[places], (keys, boards, dealt))
            shape = size, self.games
            return jax.lax.cond(
                certain[places].all(),
                lambda: (jnp.zeros(shape), jnp.zeros(shape, bool)),
                lambda: self._played_on(params, *of_these),
            )

        in_turn = jax.lax.map(some, places.reshape(-1, size))
        back = jnp.argsort(order)
        found: tuple[Array, Array] = jax.tree.map(
            lambda each: each.reshape(-1, self.games)[back], in_turn
        )
        return found

    def _played_on(
        self, params: Any, keys: Array, boards: Any, dealt: _Dealt
    ) -> tuple[Array, Array]:
        """What the games that were dealt return f32[E, N], and which of them count bool[E, N]: an
        action need not be valid on all worlds.
        """
        actions = jnp.take_along_axis(dealt.actions, dealt.which, 1)
        worlds, chance = self._worlds(keys, boards)
        last = chance.shape[1] - 1  # more are dealt only to boards that are not planned
        place = jnp.arange(keys.size)[:, None], jnp.minimum(dealt.world, last)
        boards, chance = jax.tree.map(
            lambda leaf: leaf[place].reshape(-1, *leaf.shape[2:]), (worlds, chance)
        )
        returns, counts = self._returns(params, boards, chance, actions.reshape(-1))
        return returns.reshape(actions.shape), counts.reshape(actions.shape)

    def _worlds(self, keys: Array, boards: Any) -> tuple[Any, Array]:
        """The worlds [E, W] of each board, what is hidden drawn anew, and keys [E, W] of what
        happens there.
        """
        number = self.games // _TIMES
        of_worlds = fold_in(keys[:, None], jnp.arange(number))
        chance = fold_in(of_worlds, 1)
        imagined = jax.tree.map(lambda leaf: jnp.repeat(leaf, number, axis=0), boards)
        worlds = self.env.redrawn(env_keys(of_worlds.reshape(-1)), imagined)
        return jax.tree.map(
            lambda leaf: leaf.reshape(*chance.shape, *leaf.shape[1:]), worlds
        ), chance

    def _returns(
        self, params: Any, boards: Any, chance: Array, actions: Array
    ) -> tuple[Array, Array]:
        """Of games [M] that go on by these actions from these boards, and whether the action is
        valid there.
        """
        counts = jnp.take_along_axis(self.env.mask(boards), actions[:, None], 1)[:, 0]
        gamma = self.signal.gamma

        def step(carry: tuple, number: Array) -> tuple[tuple, None]:
            boards, actions, total, weight, _ = carry
            now = fold_in(chance, number)
            after = self.step(params, now, boards, actions)
            value = jnp.where(after.ended, 0, after.value)
            total = total + weight * (after.reward + gamma * (1 - _LAMBDA) * value)
            weight = weight * gamma * _LAMBDA * ~after.ended
            draw = fold_in(now, 1)
            actions = distributions.sample(after.choice, draw)
            return (after.boards, actions, total, weight, value), None

        nothing = jnp.zeros(actions.shape)
        begin = boards, actions, nothing, nothing + 1, nothing
        (*_, total, weight, value), _ = jax.lax.scan(step, begin, jnp.arange(_STEPS))
        return total + weight * value, counts


def _found(dealt: _Dealt, returns: Array, counts: Array, value: Array, mask: Array) -> Found:
    """Takes the action of the greatest gain over the likeliest one, less what may be luck."""
    table, there = _by_world(dealt, returns, counts)
    gain, error = _mean_and_error(table - table[..., :1], there & there[..., :1])
    score = jnp.where(jnp.arange(gain.shape[-1]) == 0, 0, gain - _CAUTION * error)
    best = jnp.take_along_axis(dealt.actions, jnp.argmax(score, -1)[:, None], 1)[:, 0]
    usual = jnp.where(jnp.isfinite(error), error, 0).max(-1, keepdims=True)
    worth = jnp.where(there.any(1), _mean_and_error(table, there)[0], value[:, None])
    of_all = jnp.arange(best.size)[:, None], dealt.actions
    return Found(
        best.astype(jnp.int32),
        jnp.zeros(mask.shape).at[of_all].set(jax.nn.softmax(score / jnp.maximum(usual, 1e-6))),
        jnp.broadcast_to(value[:, None], mask.shape).at[of_all].set(worth),
    )


def _by_world(dealt: _Dealt, returns: Array, counts: Array) -> tuple[Array, Array]:
    """The returns f32[E, W, K] of actions on worlds, and which of them there are. A world on which
    only some of the actions are tried does not count, nor does one for a single action.
    """
    (boards, considered), games = dealt.actions.shape, returns.shape[1]
    number = dealt.number[:, None]
    counts = counts & (dealt.world < games // number) & (number > 1)
    nowhere = jnp.zeros((boards, max(1, games // 2), considered))
    place = jnp.arange(boards)[:, None], dealt.world, dealt.which
    table = nowhere.at[place].set(returns, mode="drop")
    return table, nowhere.astype(bool).at[place].set(counts, mode="drop")


def _mean_and_error(table: Array, there: Array) -> tuple[Array, Array]:
    """Over axis 1, of what is there: the mean and its standard error, which is infinite where fewer
    than two are.
    """
    number = there.sum(1)
    mean = jnp.where(there, table, 0).sum(1) / jnp.maximum(number, 1)
    squares = jnp.where(there, jnp.square(table - mean[:, None]), 0).sum(1)
    error = jnp.sqrt(squares / jnp.maximum(number * (number - 1), 1))
    return mean, jnp.where(number < 2, jnp.inf, error)
