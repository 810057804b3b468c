"""Networks from outside the package: those without a gradient are refused in one line."""

from __future__ import annotations

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from hackmatrix.errors import UserError
from hackmatrix.networks.torso import Parts, Torso
from hackmatrix.parallel import mesh as meshes
from hackmatrix.train.program import Program
from tests.networks.grid import GridWalk
from tests.train.settings import config
from tests.train.test_evaluator import GRID

Array = jax.Array


class Loop(Torso):
    """Sums up its input in a loop over the features."""

    def initial(self, like: Array) -> Array:
        return jnp.zeros_like(like)

    def total(self, seen: Array) -> Array:
        total, _ = jax.lax.scan(
            lambda total, each: (total + each, None), self.initial(seen[0]), jnp.sin(seen)
        )
        return total

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        part = parts["cells"]
        seen = jnp.moveaxis(nn.Dense(4)(part.reshape(*part.shape[:-3], -1)), -1, 0)
        return nn.Dense(4)(self.total(seen)[..., None])


class Constant(Loop):
    def initial(self, like: Array) -> Array:
        return jnp.zeros(like.shape)


class Endless(Loop):
    def total(self, seen: Array) -> Array:
        return jax.lax.while_loop(lambda total: total.sum() < 9, lambda total: total + 1, seen[0])


@jax.custom_vjp
def product(seen: Array, weights: Array) -> Array:
    return seen @ weights


product.defvjp(
    lambda seen, weights: (product(seen, weights), (seen, weights)),
    lambda saved, tangent: (tangent @ saved[1].T, saved[0].T @ tangent),
)


class Own(Torso):
    """Defines its own gradient."""

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        part = parts["cells"]
        rows = part.reshape(-1, math.prod(part.shape[-3:]))
        weights = self.param("weights", nn.initializers.normal(), (rows.shape[-1], 4))
        return product(rows, weights).reshape(*part.shape[:-3], 4)


def lowered(torso: type) -> str:
    settings = config(env=GRID, network=f"{__name__}:{torso.__name__}")
    return Program(settings, meshes.over()).lower().as_text()


def test_a_network_may_contain_a_loop_or_define_its_gradient() -> None:
    with_loop, without = (lowered(torso).count("stablehlo.while") for torso in (Loop, Own))
    assert with_loop > without


@pytest.mark.parametrize(
    ("torso", "why"),
    [(Constant, "TypeError: scan body function carry"), (Endless, "ValueError: Reverse-mode")],
)
def test_a_network_whose_loop_cannot_be_differentiated_is_named(torso: type, why: str) -> None:
    with pytest.raises(UserError) as refused:
        lowered(torso)
    message = str(refused.value)
    assert f"network={__name__}:{torso.__name__}: its gradient cannot be traced ({why}" in message
    assert (
        "with an initial carry derived from their input, for example by jnp.zeros_like" in message
    )
    assert "\n" not in message


class Blind(GridWalk):
    """Every observation of it looks the same."""

    def decode(self, seen: Any) -> tuple[Any, Array]:
        parts, mask = super().decode(seen)
        return {name: jnp.ones(part.shape, part.dtype) for name, part in parts.items()}, mask


def test_what_a_network_computes_may_be_the_same_for_every_board() -> None:
    """It is then also the same on all devices, unlike the rest of an update."""
    Program(config(env=f"{__name__}:Blind"), meshes.over()).lower()
