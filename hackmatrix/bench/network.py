"""Benchmark of a network alone: the speed of training if the environment cost nothing.

An update is a forward pass for every step of a rollout, then epochs of minibatches, each a gradient
step of Adam, all on random data that is already on the device.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax
from flax import struct

from hackmatrix import networks
from hackmatrix.bench.timing import Work
from hackmatrix.envs import make
from hackmatrix.envs.protocol import Parts
from hackmatrix.networks import Spec
from hackmatrix.networks.actor_critic import Network, Params

Array = jax.Array

REFERENCE = Spec("mlp", 256, 2, channels=0, separate_critic=False, compute_dtype="float32")
_ADAM = optax.adam(2.5e-4)


class Learning(struct.PyTreeNode):
    params: Params
    adam: optax.OptState
    parts: Parts  # of observations: f32[steps, boards, *shape]
    outputs: tuple[Array, Array]  # logits f32[steps, boards, A] and values f32[steps, boards]


def reference() -> Network:
    """Returns the network that the game alone is compared with."""
    return networks.make(REFERENCE, make("hackmatrix"))


def new_learning(network: Network, boards: int, steps: int) -> Learning:
    key = jax.random.key(0)
    params = network.init(key)
    return Learning(
        params=params,
        adam=_ADAM.init(params),
        parts={
            name: jax.random.uniform(key, (steps, boards, *shape))
            for name, shape in network.observation.items()
        },
        outputs=(jnp.zeros((steps, boards, network.num_actions)), jnp.zeros((steps, boards))),
    )


def update(network: Network, minibatches: int, epochs: int, learning: Learning) -> Learning:
    """Runs a rollout's forward passes, then gradient steps on a cheap loss of all outputs."""
    outputs = jax.lax.map(lambda parts: network(learning.params, parts), learning.parts)
    parts, targets = jax.tree.map(
        lambda leaf: leaf.reshape(minibatches, -1, *leaf.shape[2:]), (learning.parts, outputs)
    )

    def loss(params: Params, parts: Parts, targets: tuple[Array, Array]) -> Array:
        logits, values = network(params, parts)
        return jnp.square(logits - targets[0] - 1).mean() + jnp.square(values - targets[1]).mean()

    def descend(
        state: tuple[Params, optax.OptState], minibatch: tuple[Parts, tuple[Array, Array]]
    ) -> tuple[tuple[Params, optax.OptState], None]:
        params, adam = state
        changes, adam = _ADAM.update(jax.grad(loss)(params, *minibatch), adam)
        return (optax.apply_updates(params, changes), adam), None

    def epoch(
        state: tuple[Params, optax.OptState], _: None
    ) -> tuple[tuple[Params, optax.OptState], None]:
        return jax.lax.scan(descend, state, (parts, targets))

    (params, adam), _ = jax.lax.scan(epoch, (learning.params, learning.adam), None, epochs)
    return learning.replace(params=params, adam=adam, outputs=outputs)


def work(
    network: Network, boards: int = 256, steps: int = 128, minibatches: int = 4, epochs: int = 4
) -> Work[Learning]:
    one = jax.jit(functools.partial(update, network, minibatches, epochs), donate_argnums=0)
    return Work(one, new_learning(network, boards, steps), boards * steps)
