"""Properties of the game on any board, and its agreement with the second implementation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from agreement import mismatch
from boards import State, batches, plain
from golden import ENDINGS, REWARD_PARTS
from hypothesis import HealthCheck, Phase, given, settings
from reading import Reading
from soundness import faults
from steps import Programs, load

from hackmatrix import game
from tests.compiled_game import BATCH, keys, rows

Tree = Any

BOARDS = 16  # a batch has room for so many, each once with every action
STEPS = 200
MOMENTS = 4  # of random play, at which boards are compared with the second implementation
DUMPED = 16  # boards of a batch on which Reading is compared with scenario.dump
MIGHTY = {"credits": 99, "energy": 99, "data_siphons": 9}
WAIT = 5

few_examples = settings(
    max_examples=6,
    derandomize=True,
    phases=[Phase.generate],  # shrinking a batch of boards takes far too long
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
observe = jax.jit(jax.vmap(game.observe))
valid_actions = jax.jit(jax.vmap(game.valid_actions))


class Played(NamedTuple):
    """One step of random play on all boards."""

    keys: np.ndarray
    before: Tree
    actions: np.ndarray
    has_valid: np.ndarray
    after: Tree
    outcome: Tree


@jax.jit
def choose(key: jax.Array, states: Tree) -> tuple[jax.Array, jax.Array]:
    """Random valid actions, and which boards have any."""
    mask = jax.vmap(game.valid_actions)(states)
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)), mask.any(-1)


@pytest.fixture(scope="module")
def played(programs: Programs) -> list[Played]:
    """Random play, in which games that end are restarted.

    Half of the boards start with every program and can pay for it, which is rare in random play.
    """
    states = programs.reset(keys(0))
    is_mighty = np.arange(BATCH) % 2 == 0
    player = states.player.replace(
        **{name: np.where(is_mighty, n, getattr(states.player, name)) for name, n in MIGHTY.items()}
    )
    owned = np.where(is_mighty, np.uint32((1 << 23) - 1), states.owned)
    states = states.replace(player=player, owned=owned)
    trace = []
    for number in range(STEPS):
        each = keys(number)
        actions, has_valid = (np.asarray(part) for part in choose(each[0], states))
        after, outcome = programs.step_and_restart(each, states, actions)
        trace.append(Played(each, states, actions, has_valid, after, outcome))
        states = after
    return trace


def all_actions(boards: Tree) -> tuple[Tree, np.ndarray]:
    """A batch of the first boards, each with every action."""
    pair = np.resize(np.arange(BOARDS * game.ACTIONS), BATCH)
    board, action = np.divmod(pair, game.ACTIONS)
    return rows(boards, board), action.astype(np.int32)


def expect_parts_to_add_up(outcome: Tree) -> None:
    assert set(outcome.parts) == set(game.PARTS) == set(REWARD_PARTS)
    total = sum(part.astype(np.float64) for part in outcome.parts.values())
    np.testing.assert_allclose(outcome.reward, total, rtol=1e-4, atol=1e-4)


def expect_equal(left: Tree, right: Tree) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


# Any board


def test_random_play_earns_the_sum_of_the_parts(played: list[Played]) -> None:
    for each in played:
        expect_parts_to_add_up(each.outcome)
    for name in game.PARTS:
        if name not in ("victory", "program_waste"):
            assert any(each.outcome.parts[name].any() for each in played), name


def test_an_action_in_random_play_is_reported_as_invalid_only_if_none_is_valid(
    played: list[Played],
) -> None:
    for each in played:
        outcome = each.outcome
        np.testing.assert_array_equal(outcome.invalid, ~each.has_valid)
        np.testing.assert_array_equal(outcome.done, outcome.won | outcome.died | outcome.invalid)


def test_random_play_keeps_the_states_sound(played: list[Played]) -> None:
    for each in played:
        assert not list(faults(each.after))
        assert (each.after.player.hp > 0).all()


@few_examples
@given(states=batches(BOARDS))
def test_every_action_on_any_board_is_rewarded_with_the_sum_of_the_parts_and_leaves_it_sound(
    programs: Programs, states: list[State]
) -> None:
    boards, actions = all_actions(load(states))
    mask = np.asarray(valid_actions(boards))[np.arange(BATCH), actions]
    after, outcome = programs.step(keys(1), boards, actions)
    assert not list(faults(after))
    expect_parts_to_add_up(outcome)
    np.testing.assert_array_equal(outcome.invalid, ~mask)
    np.testing.assert_array_equal(outcome.done, outcome.won | outcome.died | outcome.invalid)


@few_examples
@given(states=batches(BOARDS))
def test_an_invalid_action_on_any_board_changes_nothing_and_ends_the_game_without_reward(
    programs: Programs, states: list[State]
) -> None:
    boards, actions = all_actions(load(states))
    mask = np.asarray(valid_actions(boards))[np.arange(BATCH), actions]
    actions = np.where(mask, np.where(np.arange(BATCH) % 2 == 0, game.ACTIONS, -1), actions)
    after, outcome = programs.step(keys(2), boards, actions.astype(np.int32))
    expect_equal(after, boards)
    assert outcome.invalid.all()
    assert outcome.done.all()
    assert not (outcome.won | outcome.died | outcome.stage_completed).any()
    assert not any(np.any(reward) for reward in [outcome.reward, *outcome.parts.values()])


# The second implementation


def disagreements(programs: Programs, states: list[State], seed: int) -> Iterator[str]:
    """Where the game and the reference differ on 16 boards, with every action on each."""
    loaded = load(states)
    masks, observations = np.asarray(valid_actions(loaded)), np.asarray(observe(loaded))
    boards, actions = all_actions(loaded)
    after, outcome = programs.step(keys(seed), boards, actions)
    reading = Reading(after)
    for place in range(0, BATCH, BATCH // DUMPED):
        assert reading.with_history(place) == game.scenario.dump(rows(after, place))
    for index, state in enumerate(states):
        valid = reference.valid_actions(state)
        if valid != np.flatnonzero(masks[index]).tolist():
            yield f"valid are {valid}, not {np.flatnonzero(masks[index])}, on {state}"
            continue
        expected = reference.observe(state)
        wrong = np.flatnonzero(np.abs(observations[index] - expected) > 1e-6)
        if wrong.size:
            yield f"observation {wrong} of {state}"
        for action in valid:
            place = game.ACTIONS * index + action
            reward = [float(outcome.parts[name][place]) for name in REWARD_PARTS]
            endings = (outcome.stage_completed, outcome.won, outcome.died)
            ending = {n: bool(e[place]) for n, e in zip(ENDINGS, endings, strict=True)}
            seen = reading.with_history(place), reward, {**ending, "invalid": False}
            yield from filter(None, [mismatch(state, action, seen)])


@few_examples
@given(states=batches(BOARDS))
def test_any_action_on_any_board_does_what_the_second_implementation_does(
    programs: Programs, states: list[State]
) -> None:
    assert not list(disagreements(programs, states, seed=3))


def test_any_action_in_random_play_does_what_the_second_implementation_does(
    programs: Programs, played: list[Played]
) -> None:
    for moment in range(MOMENTS):
        boards = played[(moment + 1) * STEPS // MOMENTS - 1].after
        chosen = range(BOARDS * moment, BOARDS * (moment + 1))
        reached = [game.scenario.dump(rows(boards, index)) for index in chosen]
        assert not list(disagreements(programs, reached, seed=moment))


@pytest.mark.parametrize("action", [0, 4, 5 + WAIT])
def test_a_result_that_the_second_implementation_never_has_is_reported(action: int) -> None:
    enemies = [[0, 3, 3, 2, 0, 0, 0, 0], [2, 2, 4, 2, 0, 0, 0, 0]]
    state = {**plain(), "owned": [WAIT], "enemies": enemies}
    found = partial(mismatch, tries=30)
    after, reward, ending = reference.step(state, action, Random(1))
    assert not found(state, action, (after, reward, ending))
    assert found(state, action, ({**after, "turn": 7}, reward, ending))
    assert found(state, action, (after, [0.5, *reward[1:]], ending))
    for place, enemy in enumerate(after["enemies"]):
        moved = [*after["enemies"][:place], [*enemy[:3], 1, *enemy[4:]]]
        wrong = {**after, "enemies": moved + after["enemies"][place + 1 :]}
        assert found(state, action, (wrong, reward, ending))


# One board, many boards, many devices


def test_several_devices_with_restarts_do_what_one_device_and_new_games_do(
    programs: Programs, played: list[Played]
) -> None:
    """Each device has a part of the boards, so this also compares batches of two sizes."""
    for each in played[:: STEPS // 10]:
        after, outcome = programs.step(each.keys, each.before, each.actions)
        expect_equal(outcome, each.outcome)
        done = outcome.done
        expect_equal(rows(each.after, ~done), rows(after, ~done))
        new = rows(programs.reset(each.keys), done)
        # A restart leaves the old snapshots in place and sets their number to 0.
        history = new.history.replace(snapshots=rows(each.after, done).history.snapshots)
        expect_equal(rows(each.after, done), new.replace(history=history))


def test_random_play_ends_games_and_completes_stages(played: list[Played]) -> None:
    for ending in ("died", "stage_completed"):
        assert sum(getattr(each.outcome, ending).sum() for each in played[:: STEPS // 10]) > 5


def test_what_a_board_does_depends_on_no_other_board_of_the_batch(
    programs: Programs, played: list[Played]
) -> None:
    each = played[-1]
    result = programs.step(each.keys, each.before, each.actions)
    shuffled = np.random.default_rng(1).permutation(BATCH)
    crowd = np.resize(rare_first(each)[:3], BATCH)  # every board needs rules that few boards need
    for chosen in (shuffled, crowd):
        again = programs.step(each.keys[chosen], rows(each.before, chosen), each.actions[chosen])
        expect_equal(again, rows(result, chosen))


def rare_first(each: Played) -> np.ndarray:
    """All boards: first those that completed a stage, then those that died, then the others."""
    outcome = each.outcome
    return np.argsort(-2 * outcome.stage_completed - outcome.died.astype(int), kind="stable")
