"""Observations in parts: flattened to a row, split again, and as an mlp sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix import networks
from hackmatrix.envs import make
from hackmatrix.envs.protocol import Parts, flat, in_parts
from hackmatrix.networks import Spec, in_numpy

SHAPES: dict[str, tuple[int, ...]] = {
    "player": (3,), "programs": (5,), "cells": (2, 2, 4), "time": (), "rest": (1,), "number": (),
}  # fmt: skip
SIZE = 3 + 5 + 16 + 1 + 1 + 1
SPEC = Spec("mlp", 16, 2, 1, separate_critic=False, compute_dtype="float32")


def parts_of(*batch: int) -> Parts:
    keys = jax.random.split(jax.random.key(0), len(SHAPES))
    return {
        name: jax.random.normal(key, (*batch, *shape))
        for key, (name, shape) in zip(keys, SHAPES.items(), strict=True)
    }


@pytest.mark.parametrize("batch", [(), (7,), (2, 7)])
def test_parts_are_flattened_in_their_order_and_split_again(batch: tuple[int, ...]) -> None:
    parts = parts_of(*batch)
    row = flat(parts, SHAPES)
    assert row.shape == (*batch, SIZE)
    np.testing.assert_array_equal(row[..., :3], parts["player"])
    np.testing.assert_array_equal(row[..., 8:24].reshape(*batch, 2, 2, 4), parts["cells"])
    again = in_parts(row, SHAPES)
    assert list(again) == list(SHAPES)
    jax.tree.map(np.testing.assert_array_equal, again, parts)


def test_an_observation_of_the_game_can_be_split_into_its_parts_and_flattened() -> None:
    env = make("hackmatrix")
    assert env.observation_size == 1545
    assert list(env.observation) == ["player", "programs", "cells"]
    row = jax.random.uniform(jax.random.key(0), (3, env.observation_size))
    np.testing.assert_array_equal(flat(in_parts(row, env.observation), env.observation), row)


def test_a_network_sees_parts_as_it_sees_them_flattened() -> None:
    in_several: Any = SimpleNamespace(name="several", observation=SHAPES, num_actions=6)
    in_one: Any = SimpleNamespace(name="one", observation={"all": (SIZE,)}, num_actions=6)
    network, of_one = networks.make(SPEC, in_several), networks.make(SPEC, in_one)
    params, parts = network.init(jax.random.key(1)), parts_of(7)
    whole = of_one(params, {"all": flat(parts, SHAPES)})
    for one, other in zip(network(params, parts), whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_part_that_is_a_single_number_is_seen_with_numpy_alone_too() -> None:
    env: Any = SimpleNamespace(name="several", observation=SHAPES, num_actions=6)
    network = networks.make(SPEC, env)
    params = network.init(jax.random.key(1))
    layers = jax.device_get(params["params"])
    parts: Any = {name: np.asarray(part) for name, part in parts_of(7).items()}
    logits = in_numpy.dense(layers["actor"], in_numpy.mlp(layers, parts))
    np.testing.assert_allclose(network(params, parts)[0], logits, atol=1e-5)
    other = network(params, {**parts, "time": parts["time"] + 1})[0]
    assert np.abs(other - logits).min(-1).max() > 1e-5
