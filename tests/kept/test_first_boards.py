"""What a run begins with is drawn by a kept program, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from configs import default
from hackmatrix.envs.gymnax_adapter import FromGymnax
from hackmatrix.kept import programs
from hackmatrix.parallel import mesh
from hackmatrix.train.config import resolve
from hackmatrix.train.program import Program

SMALL = {"env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 8, "hidden_dim": 8}
pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[Program, list[Any]]]:
    """Gives the program of another start, and what happens to its boards while it is traced."""
    traced: list[Any] = []
    reset = FromGymnax.reset

    def noted(env: FromGymnax, keys: Any) -> Any:
        traced.append(keys)
        return reset(env, keys)

    monkeypatch.setattr(FromGymnax, "reset", noted)

    def start(devices: int) -> tuple[Program, list[Any]]:
        programs._in_use.clear()
        traced.clear()
        config = resolve({**default.get_config(), **SMALL}, "cpu", devices)
        return Program(config, mesh.over(jax.devices()[:devices])), traced

    return start


@pytest.mark.parametrize("devices", [1, 2])
def test_at_the_second_start_the_first_boards_are_the_same_and_nothing_of_them_is_traced(
    starts: Callable[[int], tuple[Program, list[Any]]], devices: int
) -> None:
    program, traced = starts(devices)
    first = program.first_state()
    assert traced
    program, traced = starts(devices)
    shapes, second = program.shapes, program.first_state()
    assert not traced
    for one, other in zip(*map(leaves, (first.players, second.players)), strict=True):
        np.testing.assert_array_equal(one, other)
    kinds = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), (shapes, second))
    assert kinds[0] == kinds[1]


def test_who_has_no_use_for_boards_draws_and_traces_none(
    starts: Callable[[int], tuple[Program, list[Any]]],
) -> None:
    program, traced = starts(1)
    assert program.parameters()
    assert program.learner_shapes
    assert not traced


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in jax.tree.leaves(tree)]
