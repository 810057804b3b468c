"""Functions of one board run as one batch under vmap, and each function is traced only once."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from hackmatrix import game
from hackmatrix.game import play, stages
from hackmatrix.game.observation import OBSERVATION_SIZE
from tests.compiled_game import BATCH, keys, step_arguments


def test_vmap_of_a_step_is_one_batch_also_if_it_is_nested() -> None:
    """If vmap batched the conditions of the loops, too, all boards would run the rare rules. (The
    tests of the headless protocol cover single boards, which are batches of one.)
    """
    arguments = step_arguments(BATCH)
    in_rows = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((4, BATCH // 4, *leaf.shape[1:]), leaf.dtype), arguments
    )
    nested = jax.vmap(jax.vmap(game.step))
    assert loops(nested, *in_rows) == loops(game.step_batch, *arguments) != []


@pytest.mark.parametrize("same", ["nothing", "in a row", "in a column"])
def test_boards_under_vmap_keep_their_places_in_the_batch(same: str) -> None:
    """Two rows of three boards, which may share an action within a row or a column."""

    def batch(keys: Any, states: dict[str, Any], actions: Any) -> Any:
        return {**states, "sum": 100 * keys + 10 * actions + states["cells"].sum(-1)}

    keys, cells = np.arange(6).reshape(2, 3), np.arange(24).reshape(2, 3, 4)
    actions = {"nothing": keys[::-1], "in a row": np.arange(2), "in a column": np.arange(3)}[same]
    in_a_row = jax.vmap(play.one_board(batch), (0, 0, None if same == "in a row" else 0))
    in_rows = jax.vmap(in_a_row, (0, 0, None if same == "in a column" else 0))
    result = in_rows(keys, {"cells": cells}, actions)
    each = actions[:, None] if same == "in a row" else actions
    jax.tree.map(np.testing.assert_array_equal, result, batch(keys, {"cells": cells}, each))


def test_a_batch_may_be_empty() -> None:
    states = jax.eval_shape(jax.vmap(game.reset), keys(0)[:0])
    assert {leaf.shape[0] for leaf in jax.tree.leaves(states)} == {0}
    assert jax.eval_shape(game.observe, states).shape == (0, OBSERVATION_SIZE)


def test_games_start_and_step_in_one_program_for_several_devices() -> None:
    """shard_map checks which values differ between the devices."""

    def start_and_step(keys: jax.Array, actions: jax.Array) -> Any:
        return game.step_batch(keys, game.reset_batch(keys), actions)

    mesh, split = AbstractMesh((2,), ("boards",)), PartitionSpec("boards")
    on_devices = jax.shard_map(start_and_step, mesh=mesh, in_specs=split, out_specs=split)
    states, _ = jax.eval_shape(on_devices, keys(0), jnp.zeros(BATCH, jnp.int32))
    assert states.turn.shape == (BATCH,)


def test_games_start_on_axes_of_type_explicit_within_auto_axes() -> None:
    mesh = AbstractMesh((2,), ("boards",), axis_types=(AxisType.Explicit,))
    split = PartitionSpec("boards")
    start = jax.sharding.auto_axes(game.reset_batch, out_sharding=split)
    many = jax.ShapeDtypeStruct((64, 2), jnp.uint32, sharding=NamedSharding(mesh, split))
    with jax.sharding.use_abstract_mesh(mesh):
        assert jax.eval_shape(start, many).turn.sharding.spec == split


@pytest.mark.parametrize("depth", [-1, 0, 2.5])
def test_a_new_game_refuses_a_wrong_history_depth(depth: Any) -> None:
    with pytest.raises(ValueError, match=rf"history_depth: {depth} is not an integer from 1 to "):
        game.reset(keys(0)[0], history_depth=depth)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({0: keys(0)[0]}, "one key per board"),
        (
            {1: jax.eval_shape(game.reset, keys(0)[0])},
            r"states: shape \(\) does not match the keys'",
        ),
        ({0: keys(0, 2)}, r"states: shape \(3,\) does not match the keys' batch shape \(2,\)"),
        ({2: jnp.zeros((3, 1), jnp.int32)}, r"actions: shape \(3, 1\) does not match the keys'"),
        ({2: jnp.zeros(3)}, "actions must be integers, got float32"),
        ({2: jnp.zeros(3, bool)}, "actions must be integers, got bool"),
    ],
)
def test_wrong_arguments_of_a_step_are_refused(change: dict[int, Any], why: str) -> None:
    given = {**dict(enumerate(step_arguments(3))), **change}
    with pytest.raises(ValueError, match=why):
        jax.eval_shape(game.step_batch, *given.values())


def test_a_single_key_is_refused_where_a_batch_is_needed() -> None:
    with pytest.raises(ValueError, match="one key per board"):
        game.reset_batch(keys(0)[0])


def test_a_function_of_one_board_is_traced_once_however_often_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reset, depth = Mock(wraps=game.reset_batch), 3  # a depth that no other test uses
    monkeypatch.setattr(play, "reset_batch", reset)
    for _ in range(2):
        jax.eval_shape(lambda key: game.reset(key, depth), keys(0)[0])
    reset.assert_called_once()


def test_new_games_made_without_an_outer_jit_are_traced_once_and_can_be_donated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traced = Mock(wraps=stages.new_game)
    monkeypatch.setattr(stages, "new_game", traced)
    for seed in range(2):
        games = game.reset_batch(jnp.asarray(keys(seed, 5)))  # a number of no other test
    traced.assert_called_once()
    jax.jit(lambda games: games, donate_argnums=0)(games)


@pytest.mark.parametrize("step", [game.step_batch, game.step_batch_and_restart])
def test_a_step_of_many_boards_is_traced_once_however_often_it_is_called(
    step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So without an outer jit, too, it is compiled only once."""
    traced = Mock(wraps=play.play)
    monkeypatch.setattr(play, "play", traced)
    for _ in range(2):
        jax.eval_shape(lambda *given: step(*given), *step_arguments(3))  # a number of no other test
    traced.assert_called_once()


def test_a_step_is_compiled_once_for_all_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "_step", compiled := Mock())
    for action in (3, np.int64(3), jnp.int32(3)):
        game.step(Mock(), Mock(), action)
    actions = [call.args[2] for call in compiled.call_args_list]
    assert len({(each.aval, int(each)) for each in actions}) == 1


def test_the_loop_in_the_documentation_plays_many_boards() -> None:
    page = Path("docs/interfaces.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?m)^    import jax\n(?:(?:    .*)?\n)+?(?=    states, played)", page)
    names: dict[str, Any] = {}
    exec(textwrap.dedent(shown), names)
    states, (reward, done, won) = jax.eval_shape(lambda key: names["play"](key, 6, 9), keys(0)[0])
    assert states.turn.shape == (6,)
    assert reward.shape == done.shape == won.shape == (9, 6)


def loops(function: Any, *arguments: Any) -> list[list[str]]:
    """The types of the values that each loop of a function carries."""

    def is_jaxpr(part: Any) -> bool:
        return hasattr(part, "eqns")

    def inside(jaxpr: Any) -> Iterator[list[str]]:
        for equation in jaxpr.eqns:
            if equation.primitive.name == "while":
                yield [str(each.aval) for each in equation.outvars]
            for part in jax.tree.leaves(equation.params, is_leaf=is_jaxpr):
                if is_jaxpr(part):
                    yield from inside(part)

    return list(inside(jax.make_jaxpr(function)(*arguments)))
