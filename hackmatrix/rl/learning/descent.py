"""Gradient descent on a batch: epochs of minibatches, with the mean gradient of all devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from hackmatrix.game.tracing import on_cpu
from hackmatrix.networks.actor_critic import Params
from hackmatrix.rl.gradients import mean_gradient_of_parts
from hackmatrix.rl.learning import minibatches
from hackmatrix.rl.learning.metrics import GRAD_NORM, LR
from hackmatrix.rl.learning.settings import Settings, share_left
from hackmatrix.rl.rollout import UpdateKey
from hackmatrix.rl.tally import Metrics

Array = jax.Array
State = tuple[Params, optax.OptState]
# The mean loss over the samples of a minibatch, and what to know about it. The samples' leaves are
# [samples, ...]; what was worked out for the whole minibatch, over all devices, comes beside them.
Loss = Callable[[Params, Any, Any], tuple[Array, Metrics]]


@dataclass(frozen=True)
class Descent:
    """`at_once` samples are what a CPU takes the gradient of at a time."""

    settings: Settings
    axis: str
    at_once: int

    def first_state(self, params: Params) -> optax.OptState:
        return self._optimiser().init(params)

    def epochs(
        self,
        state: State,
        key: UpdateKey,
        numbers: Array,
        samples: Any,
        loss: Loss,
        prepare: Callable[[Array], Any] = lambda rows: (),
    ) -> tuple[State, Metrics]:
        """All epochs over the samples (leaves [T, E, ...]) of the boards of these numbers [E].
        `prepare` is given the rows i32[minibatches, samples] of an epoch, of the samples in one
        line, and tells what each minibatch needs besides them: leaves [minibatches, ...].
        """
        samples = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), samples)
        rate = self._learning_rate(key.update)

        def epoch(state: State, number: Array) -> tuple[State, Metrics]:
            rows = minibatches.rows(key, number, numbers, self.settings)

            def minibatch(state: State, part: tuple[Array, Any]) -> tuple[State, Metrics]:
                rows, prepared = part

                def of_rows(own: Params, rows: Array) -> tuple[Array, Metrics]:
                    chosen = jax.tree.map(lambda leaf: leaf[rows], samples)
                    return loss(own, chosen, prepared)

                return self._step(state, of_rows, self._in_parts(rows), rate)

            return jax.lax.scan(minibatch, state, (rows, prepare(rows)))

        each = jnp.arange(self.settings.update_epochs, dtype=jnp.uint32)
        state, told = jax.lax.scan(epoch, state, each)
        told = jax.lax.pmean(jax.tree.map(jnp.mean, told), self.axis)
        return state, {**told, LR: rate}

    def _step(
        self,
        state: State,
        loss: Callable[[Params, Array], tuple[Array, Metrics]],
        parts: Array,
        rate: Array,
    ) -> tuple[State, Metrics]:
        params, adam = state
        gradient, told = mean_gradient_of_parts(loss, params, parts, self.axis)
        changes, adam = self._optimiser().update(gradient, adam, params)
        told[GRAD_NORM] = optax.tree.norm(gradient)
        params = jax.tree.map(lambda leaf, change: leaf - rate * change, params, changes)
        return (params, adam), told

    def _optimiser(self) -> optax.GradientTransformation:
        """Adam, but for the learning rate."""
        clip = optax.clip_by_global_norm(self.settings.max_grad_norm)
        return optax.chain(clip, optax.scale_by_adam(eps=1e-5))

    def _learning_rate(self, update: Array | int) -> Array:
        if not self.settings.anneal_lr:
            return jnp.float32(self.settings.lr)
        return self.settings.lr * share_left(self.settings, update)

    def _in_parts(self, rows: Array) -> Array:
        """i32[parts, samples]: the rows of a minibatch, of which a CPU takes a part at a time."""
        fewest = -(-rows.size // self.at_once)
        fitting = (parts for parts in range(fewest, 2 * fewest) if rows.size % parts == 0)
        return rows.reshape(next(fitting, 1) if on_cpu() else 1, -1)
