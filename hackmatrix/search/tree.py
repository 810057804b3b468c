"""Tree search: policy improvement by planning with Gumbel (Danihelka et al. 2022).

The game itself is the model: a node of the tree is a board, and an edge is a step of the game. The
network provides the prior policy and the values. Everything hidden is drawn anew at the root, and
chance is drawn once for each action of a node.
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
_LEAST_RANGE = 0.5  # the least scale of a node's values, as a fraction of the board's value
_CONSIDERED = 16  # the most actions tried at the root
_Node = tuple[Any, Array]  # boards, and the keys of what happens there


def _qtransform(tree: mctx.Tree, node: Array) -> Array:
    """Returns f32[A], what the values of a node's actions add to its logits (an mctx qtransform).

    As in the paper except for the scale. The paper rescales the values of a node to [0, 1], however
    close they are to each other: where no action matters, that turns noise into certainty. Here
    they are divided by their range or, if that is greater, by a fraction of the board's value.
    """
    values = mctx.qtransform_completed_by_mix_value(tree, node, rescale_values=False)
    least_range = _LEAST_RANGE * _weight(tree, node) * jnp.abs(tree.raw_values[node])
    spread = jnp.maximum(values.max() - values.min(), least_range)
    return _weight(tree, node) * (values - values.max()) / jnp.maximum(spread, 1e-8)


def _weight(tree: mctx.Tree, node: Array) -> Array:
    """Returns the factor by which mctx multiplies values, with its default parameters."""
    return 0.1 * (50 + tree.children_visits[node].max())


@dataclass(frozen=True, eq=False)
class TreeSearch(Search):
    """Gumbel search for the signal's rewards, with `simulations` simulations for each board."""

    simulations: int

    def __call__(self, params: Any, keys: Array, boards: Any, valid: Array, noise: Array) -> Found:
        """Searches for [E] boards with keys [E], on boards that look the same to the player.

        Actions are chosen among the `valid` ones bool[E, A] of the original boards; those of the
        redrawn boards may differ. `noise` f32[E, A] is added to the logits at the root, both to
        choose which actions to try and which to take: Gumbel noise explores, 0 does not.
        """
        boards = self.env.redrawn(env_keys(keys), boards)
        choice, value, redrawn_mask = self.evaluate(params, self.env.encode(boards))
        both = redrawn_mask & valid
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
                qtransform=_qtransform,
            ),
            interior_action_selection_fn=functools.partial(
                mctx.gumbel_muzero_interior_action_selection, qtransform=_qtransform
            ),
            num_simulations=self.simulations,
            invalid_actions=~mask,
            extra_data=mctx.GumbelMuZeroExtraData(root_gumbel=noise),
        )
        summary = tree.summary()
        visits = summary.visit_counts
        value_terms = jax.vmap(_qtransform, (0, None))(tree, tree.ROOT_INDEX)
        improved = distributions.masked(logits + value_terms, mask)
        most_visited = visits == visits.max(-1, keepdims=True)
        best = jnp.argmax(jnp.where(most_visited & mask, improved.logits + noise, -jnp.inf), -1)
        values = jnp.where(visits > 0, summary.qvalues, value[:, None])
        return Found(best.astype(jnp.int32), improved.probs, values)

    def _play(
        self, params: Any, _: Array, action: Array, node: _Node
    ) -> tuple[mctx.RecurrentFnOutput, _Node]:
        """mctx's recurrent_fn: plays an action. The discount is 0 where the episode ended."""
        boards, keys = node
        keys = fold_in(keys, 1 + action)
        after = self.step(params, keys, boards, action.astype(jnp.int32))
        output = mctx.RecurrentFnOutput(
            reward=after.reward,
            discount=self.signal.gamma * ~after.ended,
            prior_logits=after.choice.logits,
            value=after.value,
        )
        return output, (after.boards, keys)
