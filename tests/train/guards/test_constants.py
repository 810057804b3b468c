"""Environments with constants, which are the same on all devices, and shard_map's type check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.envs import static_checks
from hackmatrix.envs.protocol import Step
from hackmatrix.parallel import mesh
from hackmatrix.train.program import Program
from tests.envs.toy import ACTIONS, LENGTH, Boards, Toy
from tests.train.settings import config


class Constant(Toy):
    """After each step, all its boards are the same constant, and so are the rewards."""

    def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
        number = actions.size
        never, one = jnp.zeros(number, bool), jnp.ones(number, jnp.int32)
        after = Boards(jnp.ones((number, ACTIONS), bool), one, one)
        metrics = {"toy/invalid": never}, {"toy/last_wanted": one}, {"toy/highest_wanted": one}
        return after, Step(jnp.full(number, -1.0), never, never, None, *metrics)


class Looping(Toy):
    """Its reset loops from a constant up to values that differ between boards."""

    def reset(self, keys: jax.Array) -> Boards:
        start = jnp.zeros(keys.shape[0], jnp.int32)
        ends = (keys[:, 0] % LENGTH).astype(jnp.int32)
        time = jax.lax.while_loop(
            lambda time: (time < ends).any(), lambda time: jnp.minimum(time + 1, ends), start
        )
        return self.boards(keys, time)


class UncheckedLooping(Looping):
    types_are_checked = False


def lowered(**settings: Any) -> str:
    given = {"num_envs": 16, "num_steps": 4, "num_minibatches": 2, "hidden_dim": 8, **settings}
    program = Program(config(**given), mesh.over())
    return program.lower().as_text()


@pytest.mark.parametrize("limit", [0, 3])
def test_rewards_and_boards_may_be_constants(limit: int) -> None:
    assert not [*static_checks.faults(Constant())]
    assert "while" in lowered(env=f"{__name__}:Constant", episode_limit=limit)


def test_a_loop_that_begins_with_a_constant_is_reported_and_can_be_trained_on() -> None:
    (fault,) = static_checks.faults(Looping())
    assert fault.startswith("it fails the type check of shard_map, as used in training: TypeError")
    assert "while_loop body function carry" in fault
    assert Path(__file__).name in fault
    assert fault.endswith("set `types_are_checked = False`")
    assert not [*static_checks.faults(UncheckedLooping())]
    assert "while" in lowered(env=f"{__name__}:UncheckedLooping")


@pytest.mark.parametrize("name", ["MountainCar-v0", "Asterix-MinAtar"])
def test_gymnax_environments_with_constants_can_be_trained_on(name: str) -> None:
    pytest.importorskip("gymnax", reason="Gymnax is not installed")
    assert "while" in lowered(env=f"gymnax:{name}")
