"""An outlined function is compiled once for all users of its result.

If JAX or XLA ever ignored the attribute that prevents its inlining, the game would still be right,
but it would take several times as long to compile and to run. These tests inspect the compiled
program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import game
from hackmatrix.game import cells, observation
from hackmatrix.game.outline import outlined

WAVES, USERS, BOARDS = 12, 8, 64
STARTS = np.zeros(BOARDS, np.int32)
FREE = cells.CellSet(*np.full((2, BOARDS), cells.FULL))


def flood(start: jax.Array, free: cells.CellSet) -> cells.CellSet:
    reached = cells.at(start)
    for _ in range(WAVES):
        reached = cells.spread(reached, free)
    return reached


def program_with_many_users(fill: Callable) -> Callable:
    """A program with many results, each of them a sum that needs the result of one flood fill."""

    def program(start: jax.Array, free: cells.CellSet) -> list[jax.Array]:
        reached = fill(start, free)
        return [(reached.low * np.uint32(user) + reached.high).sum() for user in range(USERS)]

    return program


def shifts(program: Callable[..., Any]) -> int:
    """The number of shifts in the compiled program, which measures the work of its flood fills."""
    compiled = jax.jit(program).lower(jnp.asarray(STARTS), FREE).compile().as_text()
    assert compiled is not None
    return compiled.count(" shift-left(")


def test_an_outlined_function_is_compiled_once_for_many_users_of_its_result() -> None:
    assert shifts(program_with_many_users(outlined(flood))) == shifts(flood)


def test_a_function_that_is_not_outlined_is_compiled_several_times() -> None:
    """Otherwise the test above would prove nothing, and no function would need to be outlined."""
    for not_outlined in (flood, jax.jit(flood)):
        assert shifts(program_with_many_users(not_outlined)) > 2 * shifts(flood)


def test_an_observation_is_written_once() -> None:
    """Concatenating its parts would hold them all as floats first, which takes twice as long."""
    words = jax.ShapeDtypeStruct((BOARDS, observation.WORDS), np.uint32)
    memory = jax.jit(observation.decode).lower(words).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < memory.output_size_in_bytes / 2


def test_the_words_of_an_observation_are_transposed_on_their_own() -> None:
    """Fused into what computes the words, a transposition reads them across all boards."""
    keys = jax.ShapeDtypeStruct((BOARDS, 2), np.uint32)
    states = jax.eval_shape(game.reset_batch, keys)
    compiled = jax.jit(observation.encode).lower(states).compile().as_text()
    assert compiled is not None
    moving = [each for each in compiled.split("\n\n") if " transpose(" in each or " copy(" in each]
    assert moving
    assert not any(" or(" in each for each in moving)


def test_the_mask_of_valid_actions_is_computed_before_an_argmax_over_it() -> None:
    """Fused into that reduction its bits would be shifted out one at a time."""
    keys = jax.ShapeDtypeStruct((BOARDS, 2), np.uint32)
    states = jax.eval_shape(game.reset_batch, keys)

    def first_valid(state: game.State) -> jax.Array:
        return jnp.where(game.valid_actions(state), 1.0, -1.0).argmax(-1)

    compiled = jax.jit(first_valid).lower(states).compile().as_text()
    assert compiled is not None
    reducing = [each for each in compiled.split("\n\n") if " reduce(" in each]
    assert reducing
    assert not any(" shift-right-logical(" in each for each in reducing)


def test_functions_are_outlined_for_a_cpu_next_to_an_accelerator_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Single boards are played on the CPU, which jax.default_device selects."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    program = program_with_many_users(outlined(flood))
    assert shifts(program) > 2 * shifts(flood)
    for cpu in jax.devices("cpu")[0], "cpu":
        with jax.default_device(cpu):
            assert shifts(program_with_many_users(outlined(flood))) == shifts(flood)
