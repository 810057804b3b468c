"""Networks from outside of the package: what no gradient leads through is refused in a line."""

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
    """Adds up what it sees, a feature at a time."""

    def begin(self, of: Array) -> Array:
        return jnp.zeros_like(of)

    def added(self, seen: Array) -> Array:
        total, _ = jax.lax.scan(
            lambda total, each: (total + each, None), self.begin(seen[0]), jnp.sin(seen)
        )
        return total

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        part = parts["cells"]
        seen = jnp.moveaxis(nn.Dense(4)(part.reshape(*part.shape[:-3], -1)), -1, 0)
        return nn.Dense(4)(self.added(seen)[..., None])


class Constant(Loop):
    def begin(self, of: Array) -> Array:
        return jnp.zeros(of.shape)


class Endless(Loop):
    def added(self, seen: Array) -> Array:
        return jax.lax.while_loop(lambda total: total.sum() < 9, lambda total: total + 1, seen[0])


@jax.custom_vjp
def product(seen: Array, weights: Array) -> Array:
    return seen @ weights


product.defvjp(
    lambda seen, weights: (product(seen, weights), (seen, weights)),
    lambda saved, tangent: (tangent @ saved[1].T, saved[0].T @ tangent),
)


class Own(Torso):
    """Its gradient is given by itself."""

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        part = parts["cells"]
        rows = part.reshape(-1, math.prod(part.shape[-3:]))
        weights = self.param("weights", nn.initializers.normal(), (rows.shape[-1], 4))
        return product(rows, weights).reshape(*part.shape[:-3], 4)


def lowered(torso: type) -> str:
    settings = config(env=GRID, network=f"{__name__}:{torso.__name__}")
    return Program(settings, meshes.over()).lower().as_text()


@pytest.mark.parametrize("torso", [Loop, Own])
def test_a_network_may_have_a_loop_or_a_gradient_of_its_own(torso: type) -> None:
    assert "while" in lowered(torso)


@pytest.mark.parametrize(
    ("torso", "why"),
    [(Constant, "TypeError: scan body function carry"), (Endless, "ValueError: Reverse-mode")],
)
def test_a_loop_through_which_no_gradient_leads_is_named(torso: type, why: str) -> None:
    with pytest.raises(UserError) as refused:
        lowered(torso)
    said = str(refused.value)
    assert f"network={__name__}:{torso.__name__}: its gradient cannot be traced ({why}" in said
    assert "with an initial carry derived from their input, for example by jnp.zeros_like" in said
    assert "\n" not in said


class Blind(GridWalk):
    """It looks the same always."""

    def decode(self, seen: Any) -> tuple[Any, Array]:
        parts, mask = super().decode(seen)
        return {name: jnp.ones(part.shape, part.dtype) for name, part in parts.items()}, mask


def test_what_is_thought_of_an_environment_may_be_a_constant() -> None:
    """And so the same on all devices, as what comes of it is not."""
    Program(config(env=f"{__name__}:Blind"), meshes.over()).lower()
