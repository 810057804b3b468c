"""Planning in play: Monte-Carlo rollouts from determinised states, with TD(lambda) returns.

Games are played on after each action that the agent is likely to take, and the mean returns decide
which one it takes. A player does not know all of a board, so the games go on from worlds: boards
that look the same to the player, with everything hidden drawn anew. All actions are tried on each
world with the same random keys (common random numbers), so that luck hardly decides between them.
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
_STEPS = 32  # of each game that is played on
_LAMBDA = 0.97  # of the TD(lambda) returns
_CAUTION = 0.5  # standard errors by which an action must be better than the likeliest
_MOST_ACTIONS, _LEAST_PROBABILITY = 8, 0.002  # of the actions that are tried
_FEWEST_TRIALS = 2  # of each action: one trial has no standard error
_FEWEST_ACTIONS = 2  # that are compared; a board with one candidate is not planned
FEWEST = _FEWEST_ACTIONS * _FEWEST_TRIALS  # games: enough to compare two actions
MOST = 4096  # games, limited by memory
# Games that are played on in parallel. A CPU is as fast with few, and can then skip more of them.
_GAMES_IN_PARALLEL, _GAMES_IN_PARALLEL_ON_CPU = 16_384, 512


class _Dealt(struct.PyTreeNode):
    """The world and the first action of each of the games [N] that are played on for boards [E]."""

    actions: Array  # i32[E, K]: the candidates, the likeliest first
    number: Array  # i32[E]: how many of these are tried
    world: Array  # i32[E, N]: the index of each game's world
    candidate: Array  # i32[E, N]: the index of its first action among the candidates


@dataclass(frozen=True, eq=False)
class Planner(Search):
    """Plays `games` games on before each move, divided among the likely actions."""

    games: int

    def __call__(self, params: Any, keys: Array, boards: Any, wanted: Array) -> Found:
        """Plans for [E] boards with keys [E]. Boards that are not `wanted` bool[E] are not planned
        and get the network's likeliest action.
        """
        choice, value, mask = self.evaluate(params, self.env.encode(boards))
        dealt = self._dealt(choice, mask, wanted)
        returns, counts = self._in_groups(params, keys, boards, dealt)
        return _found(dealt, returns, counts, value, mask)

    def look_ahead(self, params: Any, keys: Array, boards: Any, wanted: Array) -> Array:
        """Returns the best actions i32[E]: a `hackmatrix.rl.games.LookAhead`."""
        return self(params, keys, boards, wanted).action

    def _dealt(self, choice: distrax.Categorical, mask: Array, wanted: Array) -> _Dealt:
        """Deals one game to each action on the first world, then on the second, and so on."""
        likely = jnp.where(mask, choice.probs, 0)
        considered = min(_MOST_ACTIONS, self.games // _FEWEST_TRIALS, mask.shape[-1])
        most, actions = jax.lax.top_k(likely, considered)
        several = (most >= _LEAST_PROBABILITY).sum(-1, dtype=jnp.int32)
        number = jnp.where(wanted, jnp.maximum(1, several), 1)
        game = jnp.arange(self.games)
        return _Dealt(actions, number, game // number[:, None], game % number[:, None])

    def _in_groups(
        self, params: Any, keys: Array, boards: Any, dealt: _Dealt
    ) -> tuple[Array, Array]:
        """Calls `_played_on` for all boards, a group at a time. Boards with a single action to try
        come last, and groups of such boards alone are skipped.
        """
        at_once = _GAMES_IN_PARALLEL_ON_CPU if on_cpu() else _GAMES_IN_PARALLEL
        number, size = keys.size, min(keys.size, max(1, at_once // self.games))
        certain = dealt.number == 1
        order = jnp.argsort(certain)
        places = jnp.pad(order, (0, -number % size), mode="edge")

        def one_group(places: Array) -> tuple[Array, Array]:
            chosen = jax.tree.map(lambda leaf: leaf[places], (keys, boards, dealt))
            shape = size, self.games
            return jax.lax.cond(
                certain[places].all(),
                lambda: (jnp.zeros(shape, jnp.float32), jnp.zeros(shape, bool)),
                lambda: self._played_on(params, *chosen),
            )

        results = jax.lax.map(one_group, places.reshape(-1, size))
        back = jnp.argsort(order)
        found: tuple[Array, Array] = jax.tree.map(
            lambda each: each.reshape(-1, self.games)[back], results
        )
        return found

    def _played_on(
        self, params: Any, keys: Array, boards: Any, dealt: _Dealt
    ) -> tuple[Array, Array]:
        """Plays the games that were dealt. Returns their returns f32[E, N], and which of them count
        bool[E, N]: those whose first action is valid on their world.
        """
        actions = jnp.take_along_axis(dealt.actions, dealt.candidate, 1)
        worlds, chance = self._worlds(keys, boards)
        last = chance.shape[1] - 1  # games dealt to later worlds do not count (_by_world)
        place = jnp.arange(keys.size)[:, None], jnp.minimum(dealt.world, last)
        boards, chance = jax.tree.map(
            lambda leaf: leaf[place].reshape(-1, *leaf.shape[2:]), (worlds, chance)
        )
        returns, counts = self._returns(params, boards, chance, actions.reshape(-1))
        return returns.reshape(actions.shape), counts.reshape(actions.shape)

    def _worlds(self, keys: Array, boards: Any) -> tuple[Any, Array]:
        """Returns worlds [E, W] for the boards [E], with everything hidden drawn anew, and the keys
        [E, W] of what happens on them.
        """
        number = _num_worlds(self.games)
        world_keys = fold_in(keys[:, None], jnp.arange(number))
        chance = fold_in(world_keys, 1)
        copies = jax.tree.map(lambda leaf: jnp.repeat(leaf, number, axis=0), boards)
        worlds = self.env.redrawn(env_keys(world_keys.reshape(-1)), copies)
        return jax.tree.map(
            lambda leaf: leaf.reshape(*chance.shape, *leaf.shape[1:]), worlds
        ), chance

    def _returns(
        self, params: Any, boards: Any, chance: Array, actions: Array
    ) -> tuple[Array, Array]:
        """Returns the returns f32[M] of games that go on from these boards with these actions, and
        whether the action is valid there, bool[M].
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

        nothing = jnp.zeros(actions.shape, jnp.float32)
        begin = boards, actions, nothing, nothing + 1, nothing
        (*_, total, weight, value), _ = jax.lax.scan(step, begin, jnp.arange(_STEPS))
        return total + weight * value, counts


def _num_worlds(games: int) -> int:
    """Returns the most worlds on which at least two actions can be tried, with this many games."""
    return max(1, games // _FEWEST_ACTIONS)


def _found(dealt: _Dealt, returns: Array, counts: Array, value: Array, mask: Array) -> Found:
    """Takes the action with the greatest mean gain over the likeliest one, less `_CAUTION` standard
    errors of that gain.
    """
    table, counted = _by_world(dealt, returns, counts)
    gain, error = _mean_and_error(table - table[..., :1], counted & counted[..., :1])
    score = jnp.where(jnp.arange(gain.shape[-1]) == 0, 0, gain - _CAUTION * error)
    best = jnp.take_along_axis(dealt.actions, jnp.argmax(score, -1)[:, None], 1)[:, 0]
    typical_error = jnp.where(jnp.isfinite(error), error, 0).max(-1, keepdims=True)
    values = jnp.where(counted.any(1), _mean_and_error(table, counted)[0], value[:, None])
    place = jnp.arange(best.size)[:, None], dealt.actions
    policy = jax.nn.softmax(score / jnp.maximum(typical_error, 1e-6))
    return Found(
        best.astype(jnp.int32),
        jnp.zeros(mask.shape, jnp.float32).at[place].set(policy),
        jnp.broadcast_to(value[:, None], mask.shape).at[place].set(values),
    )


def _by_world(dealt: _Dealt, returns: Array, counts: Array) -> tuple[Array, Array]:
    """Returns a table f32[E, W, K] of returns by world and action, and which of its entries count,
    bool[E, W, K]. A world on which only some of the actions are tried does not count, nor does a
    board with a single action.
    """
    (boards, considered), games = dealt.actions.shape, returns.shape[1]
    number = dealt.number[:, None]
    counts = counts & (dealt.world < games // number) & (number > 1)
    empty = jnp.zeros((boards, _num_worlds(games), considered), jnp.float32)
    place = jnp.arange(boards)[:, None], dealt.world, dealt.candidate
    table = empty.at[place].set(returns, mode="drop")
    return table, empty.astype(bool).at[place].set(counts, mode="drop")


def _mean_and_error(table: Array, counted: Array) -> tuple[Array, Array]:
    """Returns the mean over axis 1 of the entries that count, and its standard error, which is
    infinite if fewer than two do.
    """
    number = counted.sum(1)
    mean = jnp.where(counted, table, 0).sum(1) / jnp.maximum(number, 1)
    squares = jnp.where(counted, jnp.square(table - mean[:, None]), 0).sum(1)
    error = jnp.sqrt(squares / jnp.maximum(number * (number - 1), 1))
    return mean, jnp.where(number < 2, jnp.inf, error)
