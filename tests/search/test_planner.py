"""Planning in play, with everything hidden drawn anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import Parts, Shaping, Step
from hackmatrix.parallel import mesh
from hackmatrix.rl.draws import fold_in, seed_key
from hackmatrix.rl.evaluation import Evaluation
from hackmatrix.rl.games import Forward
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.rl.tally import RETURN
from hackmatrix.search import planner as planner_module
from hackmatrix.search.base import Found
from hackmatrix.search.planner import Planner
from hackmatrix.train.policies.player import Player
from hackmatrix.train.policies.policy import Policy
from tests.envs.toy import ACTIONS, LENGTH, Boards, Toy
from tests.rl.rolled import mlp
from tests.search.open import Coins, Open, Veiled

NETWORK = mlp(Toy(), hidden_dim=8, num_layers=1)
SIGNAL = RewardSignal(gamma=0.1, potential_shaping=False)
BOARDS = 32


@pytest.fixture(scope="module")
def params() -> Any:
    """Of an untrained network."""
    return jax.jit(NETWORK.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def boards() -> Boards:
    """As host arrays."""
    keys = jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS))
    reset: Boards = jax.device_get(jax.jit(Toy().reset)(keys))
    return reset


def planning(
    env: Toy, games: int, network: Forward = NETWORK, signal: RewardSignal = SIGNAL
) -> Callable[..., Found]:
    """Returns a function that plans for boards, by default for all of them. It compiles once for
    each number of boards.
    """
    plan = jax.jit(Planner(env, network, signal, games))

    def planned(params: Any, boards: Boards, wanted: np.ndarray | None = None) -> Found:
        numbers: Any = np.arange(boards.time.size, dtype=np.uint32)
        wanted = np.ones(numbers.shape, bool) if wanted is None else wanted
        found: Found = jax.device_get(plan(params, fold_in(seed_key(2), numbers), boards, wanted))
        return found

    return planned


def prefers(*shares: float) -> Forward:
    """Returns a network with these action probabilities and a value of 7 on every board."""

    def forward(_: Any, parts: Parts) -> tuple[jax.Array, jax.Array]:
        boards = parts["mask"].shape[0]
        return jnp.tile(jnp.log(jnp.asarray(shares)), (boards, 1)), jnp.full(boards, 7.0)

    return forward


def test_a_planner_computes_in_32_bits_even_where_64_are_enabled(
    params: Any, boards: Boards
) -> None:
    keys, wanted = fold_in(seed_key(2), jnp.arange(BOARDS)), np.ones(BOARDS, bool)

    def shapes() -> Any:
        return jax.eval_shape(Planner(Open(), NETWORK, SIGNAL, 8), params, keys, boards, wanted)

    with jax.enable_x64(True):
        found = shapes()
    assert found == shapes()


def test_a_plan_is_the_same_whatever_is_hidden(params: Any, boards: Boards) -> None:
    other = boards.replace(wanted=np.argmax(boards.mask, -1).astype(np.int32))
    assert (other.wanted != boards.wanted).any()
    plan = planning(Veiled(), 32)
    plans = [plan(params, each) for each in (boards, other)]
    for one, two in zip(*map(jax.tree.leaves, plans), strict=True):
        np.testing.assert_array_equal(one, two)


def test_values_are_averages_over_what_is_hidden(params: Any, boards: Boards) -> None:
    """Each valid action has the same chance to be worth 1. What follows is worth at most 1/9. There
    is a board for each number of valid actions from 2.
    """
    numbers, first = np.unique(boards.mask.sum(-1), return_index=True)
    assert numbers.tolist() == [1, 2, 3, 4, 5, 6]
    several = jax.tree.map(lambda leaf: leaf[first[1:]], boards)
    found, mask = planning(Veiled(), 2048)(params, several), several.mask
    average = np.broadcast_to(1 / mask.sum(-1, keepdims=True), mask.shape)
    off = found.value[mask] - average[mask]
    assert (off > -0.1).all()
    assert (off < 0.1 + 1 / 9).all()


def test_chance_cannot_be_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blind guess is right half of the time. 7 is the network's value after the last step."""
    monkeypatch.setattr(planner_module, "_LAMBDA", 1.0)
    keys = jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS))
    plan = planning(Coins(), 32, prefers(0.5, 0.5, 0, 0, 0, 0), RewardSignal(1.0, False))
    guesses = plan({}, Coins().reset(keys)).value[:, :2] - 7
    assert guesses.mean() == pytest.approx(planner_module._STEPS / 2, abs=0.5)


def test_games_are_dealt_out_among_the_likely_actions(boards: Boards) -> None:
    """With 8 games three actions are tried twice each; with 5 only the two likeliest are."""
    all_valid = boards.replace(mask=np.ones_like(boards.mask))
    network = prefers(0.001, 0.5, 0.3, 0.0001, 0.199, 0.0009)
    found = planning(Open(), 8, network)({}, all_valid)
    tried = found.value != 7
    assert tried.any(0).tolist() == [False, True, True, False, True, False]
    assert (found.policy[:, [0, 3, 5]] == 0).all()
    wanted = all_valid.wanted
    known = np.isin(wanted, [1, 2, 4])
    assert known.any()
    assert (~known).any()
    assert found.action[known].tolist() == wanted[known].tolist()
    assert (found.action[~known] == 1).all()
    few = planning(Open(), 5, network)({}, all_valid).action
    np.testing.assert_array_equal(few, np.where(wanted == 2, 2, 1))


def test_the_standard_error_is_that_of_the_mean_and_not_of_one_game() -> None:
    returns, counted = jnp.array([[1.0], [2.0], [3.0], [9.0]])[None], jnp.array([1, 1, 1, 0], bool)
    mean, error = planner_module._mean_and_error(returns, counted[None, :, None])
    assert float(mean[0, 0]) == pytest.approx(2)
    assert float(error[0, 0]) == pytest.approx(3**-0.5)


def test_a_world_on_which_only_some_of_the_actions_are_tried_does_not_count() -> None:
    """Three actions in seven games."""
    actions, game = jnp.arange(3)[None], jnp.arange(7)[None]
    dealt = planner_module._Dealt(actions, jnp.array([3]), game // 3, game % 3)
    _, counted = planner_module._by_world(dealt, jnp.ones((1, 7)), jnp.ones((1, 7), bool))
    assert counted[0].sum(1).tolist() == [3, 3, 0]


def test_luck_does_not_decide_between_actions(boards: Boards) -> None:
    """Rewards are drawn, whatever the action: on the same worlds all actions earn the same."""

    class Lottery(Open):
        def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
            after, step = super().step(keys, states, actions)
            drawn = jax.vmap(jax.random.uniform)(jax.random.wrap_key_data(keys))
            return after, step.replace(reward=drawn)

    all_valid = boards.replace(mask=np.ones_like(boards.mask))
    found = planning(Lottery(), 18, prefers(0.2, 0.3, 0.5, 0, 0, 0))({}, all_valid)
    assert (found.action == 2).all()
    np.testing.assert_allclose(found.policy[:, :3], 1 / 3, rtol=1e-5)
    assert found.value[:, 2].std() > 0.01


def test_a_world_on_which_an_action_is_not_valid_does_not_count_for_it(boards: Boards) -> None:
    class Barred(Open):
        def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
            return states.replace(mask=states.mask.at[:, 2].set(False))

    all_valid = boards.replace(mask=np.ones_like(boards.mask), wanted=0 * boards.wanted + 2)
    found = planning(Barred(), 8, prefers(1e-9, 0.6, 0.4, 1e-9, 1e-9, 1e-9))({}, all_valid)
    assert (found.action == 1).all()
    assert (found.value[:, 2] == 7).all()


def test_what_is_hidden_is_drawn_once_for_all_actions_of_a_world(boards: Boards) -> None:
    drawn = []

    class Noting(Open):
        def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
            drawn.append(len(keys))
            return states

    planning(Noting(), 8, prefers(0.5, 0.5, 1e-9, 1e-9, 1e-9, 1e-9))({}, boards)
    assert drawn == [len(boards.wanted) * 8 // 2]  # at least two actions are tried on each world


def test_it_seeks_possessions_where_its_agent_was_rewarded_for_them(boards: Boards) -> None:
    class Collecting(Open):
        """The wanted action gains a possession instead of a reward."""

        has_possessions = True

        def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
            after, step = super().step(keys, states, actions)
            nothing = jnp.zeros_like(step.reward)
            shaping = Shaping(nothing, nothing, nothing, gained=step.reward)
            return after, step.replace(reward=nothing, shaping=shaping)

    all_valid = boards.replace(mask=np.ones_like(boards.mask))
    network = prefers(*[1 / ACTIONS] * ACTIONS)
    owning = dataclasses.replace(SIGNAL, owned_reward_end=100.0)
    found = planning(Collecting(), 12, network, owning)({}, all_valid)
    np.testing.assert_array_equal(found.action, all_valid.wanted)
    without = planning(Collecting(), 12, network)({}, all_valid)
    assert (without.action != all_valid.wanted).any()


@pytest.mark.parametrize(("truncates", "after"), [(False, 0.0), (True, 0.1 * 7)])
def test_the_value_after_an_end_counts_only_where_the_game_was_truncated(
    boards: Boards, truncates: bool, after: float
) -> None:
    last = boards.replace(
        mask=np.ones_like(boards.mask), time=np.full_like(boards.time, LENGTH - 1)
    )
    found = planning(Open(truncates), 12, prefers(*[1 / ACTIONS] * ACTIONS))({}, last)
    is_wanted = np.arange(ACTIONS) == last.wanted[:, None]
    np.testing.assert_allclose(found.value, is_wanted + after, atol=2e-3)


def test_a_single_likely_action_is_taken_without_planning(boards: Boards) -> None:
    all_valid = boards.replace(mask=np.ones_like(boards.mask))
    network = prefers(0.001, 0.996, 0.001, 0.001, 0.0005, 0.0005)
    certain = planning(Open(), 8, network)({}, all_valid)
    assert (certain.action == 1).all()
    assert (certain.policy[:, 1] == 1).all()
    assert (certain.value == 7).all()


def test_games_are_played_on_only_where_a_plan_is_wanted(
    boards: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "_GAMES_IN_PARALLEL_ON_CPU", 12)  # the games of one board
    all_valid = boards.replace(mask=np.ones_like(boards.mask))
    wanted = np.arange(BOARDS) % 3 == 0
    found = planning(Open(), 12, prefers(*[1 / ACTIONS] * ACTIONS))({}, all_valid, wanted)
    assert ((found.value != 7).any(1) == wanted).all()


def test_a_plan_does_not_depend_on_the_boards_planned_beside_it(
    params: Any, boards: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = planning(Open(), 8)(params, boards)
    monkeypatch.setattr(planner_module, "_GAMES_IN_PARALLEL_ON_CPU", 5 * 8)
    np.testing.assert_array_equal(together.action, planning(Open(), 8)(params, boards).action)


def test_looking_ahead_wins_every_game_on_one_device(params: Any) -> None:
    """tests/api/test_agent.py looks ahead on all."""
    planner = Planner(Open(), NETWORK, SIGNAL, 32)
    goes_on = Mock(return_value=True)
    played = Evaluation(
        Open(), NETWORK, mesh.over(jax.devices()[:1]), planner.look_ahead, goes_on
    ).beside_random(params, seed=1, games=16)
    assert played["agent"][RETURN].tolist() == [LENGTH] * 16
    assert goes_on.call_count >= 2 * LENGTH, "it can be stopped at each step"
    assert played["random"][RETURN].mean() < 0.7 * LENGTH


def test_a_player_that_looks_ahead_shows_what_it_found(params: Any, boards: Boards) -> None:
    env = Open()
    policy = Policy(env, NETWORK, params, "a test", 0, SIGNAL)
    player = Player(policy, seed=3, number=0, planner=Planner(env, NETWORK, SIGNAL, 32))
    some = int(np.argmax(boards.mask.sum(-1)))
    one = jax.tree.map(lambda leaf: leaf[some : some + 1], boards)
    nothing = np.zeros(0, np.float32)
    action, probabilities, value = player.choose(nothing, np.asarray(one.mask[0]), 0, one)
    assert action == int(one.wanted[0]) == int(np.argmax(probabilities))
    assert value == pytest.approx(1, abs=0.5)


def test_an_environment_that_cannot_redraw_what_is_hidden_is_not_planned_on(
    params: Any, boards: Boards
) -> None:
    assert not Toy().can_redraw
    assert Open().can_redraw
    with pytest.raises(NotImplementedError, match="toy does not define `redrawn`"):
        planning(Toy(), 8)(params, boards)
