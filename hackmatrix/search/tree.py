"""Search in a tree of boards: policy improvement by planning with Gumbel (Danihelka et al. 2022).

The game itself is the model: a node of the tree is a board, and what follows from an action there
is played. The network tells which actions are worth trying and what a board is worth. What is
hidden is drawn anew at the root, and what happens by chance once for each action of a node.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mctx

from hackmatrix.rl import distributions
from hackmatrix.rl.draws import fold_in
from hackmatrix.search.base import Found, Search, env_keys

Array = jax.Array
_AT_STAKE = 0.5  # of what a board is worth: differences that are smaller count less
_CONSIDERED = 16  # actions at most, at the root
_Node = tuple[Any, Array]  # boards, and the keys of what happens there


def _advice(tree: mctx.Tree, node: Array) -> Array:
    """f32[A]: what to add to the network's logits at a node, by what its actions came to.

    As in the paper, but for the scale. It stretches the values of a node from 0 to 1, however close
    they are to each other; where nothing is at stake, that makes certainties of mere noise. Here
    they are compared with what the board is worth.
    """
    values = mctx.qtransform_completed_by_mix_value(tree, node, rescale_values=False)
    at_stake = _AT_STAKE * _weight(tree, node) * jnp.abs(tree.raw_values[node])
    spread = jnp.maximum(values.max() - values.min(), at_stake)
    return _weight(tree, node) * (values - values.max()) / jnp.maximum(spread, 1e-8)


def _weight(tree: mctx.Tree, node: Array) -> Array:
    """What mctx multiplies values with."""
    return 0.1 * (50 + tree.children_visits[node].max())


@dataclass(frozen=True, eq=False)
class TreeSearch(Search):
    """Searches, so many simulations for each board, for what the signal rewards."""

    simulations: int

    def __call__(self, params: Any, keys: Array, boards: Any, valid: Array, noise: Array) -> Found:
        """What was found of [E] boards, by keys [E], on others that look the same. Actions are
        chosen among the valid ones bool[E, A], which may be others than on a board that is
        imagined. Of those that are equally good the one with more noise f32[E, A] is taken, and
        tried more: Gumbel noise explores, 0 does not.
        """
        boards = self.env.redrawn(env_keys(keys), boards)
        choice, value, there = self.evaluate(params, self.env.encode(boards))
        both = there & valid
        mask = jnp.where(both.any(-1, keepdims=True), both, valid)
        logits = distributions.masked(choice.logits, mask).logits
        tree = mctx.search(
            params,
            jax.random.key(0),  # nothing is drawn from it
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=(boards, keys)),
            recurrent_fn=self._play,
            root_action_selection_fn=functools.partial(
                mctx.gumbel_muzero_root_action_selection,
                num_simulations=self.simulations,
                max_num_considered_actions=_CONSIDERED,
                qtransform=_advice,
            ),
            interior_action_selection_fn=functools.partial(
                mctx.gumbel_muzero_interior_action_selection, qtransform=_advice
            ),
            num_simulations=self.simulations,
            invalid_actions=~mask,
            extra_data=mctx.GumbelMuZeroExtraData(root_gumbel=noise),
        )
        said = tree.summary()
        visits = said.visit_counts
        advice = jax.vmap(_advice, (0, None))(tree, tree.ROOT_INDEX)
        better = distributions.masked(logits + advice, mask)
        most = visits == visits.max(-1, keepdims=True)
        best = jnp.argmax(jnp.where(most & mask, better.logits + noise, -jnp.inf), -1)
        values = jnp.where(visits > 0, said.qvalues, value[:, None])
        return Found(best.astype(jnp.int32), better.probs, values)

    def _play(
        self, params: Any, _: Array, action: Array, node: _Node
    ) -> tuple[mctx.RecurrentFnOutput, _Node]:
        """The boards after an action; what a new game brings after an end is worth nothing."""
        boards, keys = node
        keys = fold_in(keys, 1 + action)
        after = self.step(params, keys, boards, action.astype(jnp.int32))
        said = mctx.RecurrentFnOutput(
            reward=after.reward,
            discount=self.signal.gamma * ~after.ended,
            prior_logits=after.choice.logits,
            value=after.value,
        )
        return said, (after.boards, keys)
