"""Benchmark of the network alone: the cost of training if the environment cost nothing.

An update is a forward pass for every step of a rollout, then epochs of minibatches of gradients and
Adam, all on random data that is already on the device.
"""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import optax
from flax import struct

from hackmatrix.bench.timing import Work
from hackmatrix.game import ACTIONS
from hackmatrix.game.observation import OBSERVATION_SIZE

Array = jax.Array
Layers = list[tuple[Array, Array]]

WIDTHS = (OBSERVATION_SIZE, 256, 256, ACTIONS + 1)
MINIBATCHES = 4
EPOCHS = 4
_ADAM = optax.adam(2.5e-4)


class Learning(struct.PyTreeNode):
    layers: Layers
    adam: optax.OptState
    observations: Array  # f32[steps, boards, 1545]
    outputs: Array  # f32[steps, boards, 29]: logits and value


def new_learning(boards: int, steps: int) -> Learning:
    key = jax.random.key(0)
    layers = [
        (jax.random.normal(key, (wide, out)) / math.sqrt(wide), jnp.zeros(out))
        for wide, out in itertools.pairwise(WIDTHS)
    ]
    return Learning(
        layers=layers,
        adam=_ADAM.init(layers),
        observations=jax.random.uniform(key, (steps, boards, WIDTHS[0])),
        outputs=jnp.zeros((steps, boards, WIDTHS[-1])),
    )


def forward(layers: Layers, observations: Array) -> Array:
    """f32[..., 29] from f32[..., 1545]."""
    *hidden, (last_weights, last_bias) = layers
    for weights, bias in hidden:
        observations = jax.nn.relu(observations @ weights + bias)
    return observations @ last_weights + last_bias


@functools.partial(jax.jit, donate_argnums=0)
def update(learning: Learning) -> Learning:
    """A rollout's forward passes, then gradient steps; the loss is a cheap one of every output."""
    outputs = jax.lax.map(lambda each: forward(learning.layers, each), learning.observations)
    minibatches = learning.observations.reshape(MINIBATCHES, -1, WIDTHS[0])
    targets = (outputs + 1).reshape(MINIBATCHES, -1, WIDTHS[-1])

    def loss(layers: Layers, observations: Array, targets: Array) -> Array:
        return jnp.square(forward(layers, observations) - targets).mean()

    def descend(
        state: tuple[Layers, optax.OptState], minibatch: tuple[Array, Array]
    ) -> tuple[tuple[Layers, optax.OptState], None]:
        layers, adam = state
        changes, adam = _ADAM.update(jax.grad(loss)(layers, *minibatch), adam)
        return (optax.apply_updates(layers, changes), adam), None

    def epoch(
        state: tuple[Layers, optax.OptState], _: None
    ) -> tuple[tuple[Layers, optax.OptState], None]:
        return jax.lax.scan(descend, state, (minibatches, targets))

    (layers, adam), _ = jax.lax.scan(epoch, (learning.layers, learning.adam), None, EPOCHS)
    return learning.replace(layers=layers, adam=adam, outputs=outputs)


def work(boards: int = 256, steps: int = 128) -> Work[Learning]:
    return Work(update, new_learning(boards, steps), boards * steps)
