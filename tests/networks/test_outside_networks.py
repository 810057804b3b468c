"""Networks from outside of the package: those that cannot be trained are refused in a line."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import networks
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.networks.torso import Parts, Torso
from tests.networks.grid import GridWalk


class Plain(Torso):
    """Reads the parts in the order in which it gets them."""

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        rows = [part.reshape(*part.shape[: -len(self.observation[name])], -1)
                for name, part in parts.items()]  # fmt: skip
        return self.features(jnp.concatenate(rows, axis=-1))

    def features(self, seen: jax.Array) -> Any:
        return nn.Dense(8)(seen)


class NoTorso:
    pass


class Tuple(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.Dense(8)(seen), seen


class Nothing(Plain):
    def features(self, seen: jax.Array) -> Any:
        nn.Dense(8)(seen)


class Single(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.Dense(8)(seen).sum(-1)


class Forgetful(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.Dropout(0.5, deterministic=False)(seen)


class Counting(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.BatchNorm(use_running_average=True)(seen)


class Half(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.Dense(8, param_dtype=jnp.bfloat16)(seen)


class Flat(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.Dense(8)(seen).reshape(-1, 8)


class Whole(Plain):
    def features(self, seen: jax.Array) -> Any:
        return nn.Dense(8)(seen).astype(jnp.int32)


def fail() -> None:
    raise RuntimeError("what no one\nhas foreseen")


LINE = fail.__code__.co_firstlineno + 1


class Broken(Plain):
    def features(self, seen: jax.Array) -> Any:
        fail()


class Demanding(Plain):
    @classmethod
    def refuses(cls, spec: networks.Spec, observation: Any) -> str | None:
        return None if observation["board"] else "it needs a board"


class Oddly(Plain):
    """Its parameters have a slash in a name and a tuple, which files store in another form."""

    def features(self, seen: jax.Array) -> Any:
        pair = self.param("pair", lambda key: (jnp.ones(2), jnp.full(8, 0.5)))
        return nn.Dense(8, name="a/b")(seen) * pair[1] + pair[0].sum()


def made(torso: type) -> networks.Network:
    spec = networks.Spec(f"{__name__}:{torso.__name__}", 8, 1, 1, False, "float32")
    return networks.make(spec, GridWalk())


@pytest.mark.parametrize(
    ("torso", "message"),
    [
        (NoTorso, "is not a torso: it must be a subclass of hackmatrix.networks.torso.Torso"),
        (Tuple, "TypeError: its `__call__` returns tuple, not a jax.Array); a torso maps"),
        (Nothing, "TypeError: its `__call__` returns NoneType, not a jax.Array); a torso maps"),
        (Single, "ValueError: for batch shape [1] its features have shape [1]); a torso maps"),
        (Whole, "TypeError: its features are int32; they must be floating point"),
        (Torso, "NotImplementedError: the torso has no __call__"),
        (Forgetful, "it fails on an observation (InvalidRngError"),
        (Counting, "it has state (batch_stats), but only parameters are trained and saved"),
        (Half, "is bfloat16, not float32"),
        (Demanding, "its `refuses` fails: KeyError: 'board', test_outside_networks.py:"),
        (Flat, "ValueError: for batch shape [3, 2] its features have shape [6, 8]); a torso maps"),
        (
            Broken,
            f"(RuntimeError: what no one, test_outside_networks.py:{LINE}); a",
        ),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused(torso: type, message: str) -> None:
    with pytest.raises(UserError) as refused:
        made(torso)
    assert f"network={__name__}:{torso.__name__}" in str(refused.value)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_parameters_of_any_structure_can_be_read_back_from_a_file(tmp_path: Path) -> None:
    network, env, file = made(Oddly), GridWalk(), tmp_path / "policy.npz"
    params = network.init(jax.random.key(1))
    about = files.About(env.name, dict(env.observation), env.action_names, "a", 1, network.spec)
    file.write_bytes(files.content(params, about))
    again = network.fitted(files.read(file)[0], str(file))
    jax.tree.map(np.testing.assert_array_equal, again, params)


def test_a_network_can_be_pickled_where_the_observation_is_a_mapping_proxy() -> None:
    assert isinstance(GridWalk.observation, MappingProxyType)
    network = made(Plain)
    assert pickle.loads(pickle.dumps(network)) == network


def test_parts_are_read_in_their_declared_order_whatever_order_they_come_in() -> None:
    """JAX sorts the keys of dicts, so a `decode` by jax.vmap returns parts in another order."""
    network = made(Plain)
    keys = jax.random.split(jax.random.key(0), len(network.observation))
    parts = {
        name: jax.random.normal(key, (2, *shape))
        for key, (name, shape) in zip(keys, network.observation.items(), strict=True)
    }
    assert list(parts) != sorted(parts)
    params = network.init(jax.random.key(1))
    others = network(params, {name: parts[name] for name in sorted(parts)})
    for one, other in zip(network(params, parts), others, strict=True):
        np.testing.assert_array_equal(one, other)
