"""A small train state with leaves of several dtypes, some of them sharded over the mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.sharding import Mesh, NamedSharding

from hackmatrix.parallel import mesh as meshes

ENVS, HIDDEN = 16, 200
AWKWARD = [0.0, -0.0, np.inf, -np.inf, 1e-45, 3.4e38]  # the least and nearly the largest float32


class Learner(struct.PyTreeNode):
    params: Any
    optimiser: Any
    update: Any
    key: Any


class State(struct.PyTreeNode):
    learner: Learner
    players: Any


def on(devices: int) -> Mesh:
    return meshes.over(jax.devices()[:devices])


def state(mesh: Mesh, seed: int = 0) -> State:
    """Returns a state with the same values for the same seed on any mesh."""
    return _maker(mesh)(seed)


@functools.cache
def _maker(mesh: Mesh) -> Callable[[int], State]:
    make = functools.partial(_state, envs=ENVS, hidden=HIDDEN)
    return jax.jit(make, out_shardings=_places(mesh))


def like(mesh: Mesh, envs: int = ENVS, hidden: int = HIDDEN) -> State:
    shapes = jax.eval_shape(lambda: _state(0, envs, hidden))
    places = _places(mesh)
    return State(_placed(shapes.learner, places.learner), _placed(shapes.players, places.players))


def bits(tree: Any) -> list[tuple[str, bytes]]:
    """The dtype and the bytes of every leaf."""
    return [(str(leaf.dtype), np.asarray(_plain(leaf)).tobytes()) for leaf in jax.tree.leaves(tree)]


def local_bits(tree: Any) -> list[bytes]:
    """The bytes of the shards of all leaves on this process."""
    parts = [part for leaf in jax.tree.leaves(tree) for part in _plain(leaf).addressable_shards]
    return [np.asarray(part.data).tobytes() for part in parts]


def _plain(leaf: Any) -> Any:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _places(mesh: Mesh) -> Any:
    return State(meshes.replicated(mesh), meshes.split(mesh))  # type: ignore[arg-type]


def _placed(shapes: Any, place: NamedSharding) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes
    )


def _state(seed: Any, envs: int, hidden: int) -> State:
    key = jax.random.key(seed)
    kernel = jax.random.normal(key, (17, hidden)).at[: len(AWKWARD), 0].set(jnp.array(AWKWARD))
    nan = jax.lax.bitcast_convert_type(jnp.uint32(0x7FC12345), jnp.float32)  # with a payload
    params = {
        "hidden_0": {"kernel": kernel.at[-1, -1].set(nan)},
        "head": {"bias": jax.random.normal(key, (hidden,), jnp.bfloat16)},
    }
    return State(
        Learner(
            params=params,
            optimiser=optax.adam(1e-3).init(params),
            update=jnp.asarray(seed, jnp.int32),
            key=jax.random.key_data(key),
        ),
        players={
            "boards": jax.random.bits(key, (envs, 9), jnp.uint8),
            "numbers": jnp.arange(envs, dtype=jnp.uint32),
            "keys": jax.random.split(key, envs),
            "over": jax.random.bernoulli(key, shape=(envs,)),
            "steps": jnp.zeros(envs, jnp.int32),
        },
    )
