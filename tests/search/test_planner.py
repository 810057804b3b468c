"""Looking ahead in play, with what is hidden drawn anew."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import Parts, Shaping, Step
from hackmatrix.parallel import mesh
from hackmatrix.rl.draws import key_of_each, seed_key
from hackmatrix.rl.evaluation import Evaluation
from hackmatrix.rl.games import Forward
from hackmatrix.rl.signal import Signal
from hackmatrix.rl.tally import RETURN
from hackmatrix.search import planner as planner_module
from hackmatrix.search.found import Found
from hackmatrix.search.planner import Planner
from hackmatrix.train.policies.player import Player
from hackmatrix.train.policies.policy import Policy
from tests.envs.toy import ACTIONS, LENGTH, Boards, Toy
from tests.rl.rolled import mlp
from tests.search.open import Open, Veiled

NETWORK = mlp(Toy(), hidden_dim=8, num_layers=1)
SIGNAL = Signal(gamma=0.1, potential_shaping=False)
BOARDS = 32


@pytest.fixture(scope="module")
def params() -> Any:
    """Of a network that knows nothing yet."""
    return NETWORK.init(jax.random.key(0))


@pytest.fixture(scope="module")
def boards() -> Boards:
    return Toy().reset(jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS)))


def planned(
    env: Toy,
    params: Any,
    boards: Boards,
    games: int,
    network: Forward = NETWORK,
    signal: Signal = SIGNAL,
) -> Found:
    keys = key_of_each(seed_key(2), jnp.arange(boards.time.size, dtype=jnp.uint32))
    wanted = jnp.ones_like(boards.time, bool)
    found: Found = jax.jit(Planner(env, network, signal, games))(params, keys, boards, wanted)
    return found


def prefers(*shares: float) -> Forward:
    """A network that wants to act in these shares on any board, and thinks each worth 7."""

    def forward(_: Any, parts: Parts) -> tuple[jax.Array, jax.Array]:
        boards = parts["mask"].shape[0]
        return jnp.tile(jnp.log(jnp.asarray(shares)), (boards, 1)), jnp.full(boards, 7.0)

    return forward


def test_a_plan_is_the_same_whatever_is_hidden(params: Any, boards: Boards) -> None:
    other = boards.replace(wanted=jnp.argmax(boards.mask, -1).astype(jnp.int32))
    assert (np.asarray(other.wanted) != np.asarray(boards.wanted)).any()
    looks_the_same = [planned(Veiled(), params, each, 32) for each in (boards, other)]
    for one, two in zip(*map(jax.tree.leaves, looks_the_same), strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_cannot_be_known_is_worth_what_it_is_on_average(params: Any, boards: Boards) -> None:
    """One of the valid actions is worth 1, the same chance for each of them; what follows is worth
    at most a tenth of that.
    """
    several = jax.tree.map(lambda leaf: leaf[boards.mask.sum(-1) > 1], boards)
    found, mask = planned(Veiled(), params, several, 2048), np.asarray(several.mask)
    average = np.broadcast_to(1 / mask.sum(-1, keepdims=True), mask.shape)
    off = np.asarray(found.value)[mask] - average[mask]
    assert (off > -0.1).all()
    assert (off < 0.1 + 1 / 9).all()


def test_games_are_dealt_out_among_the_likely_actions(boards: Boards) -> None:
    """With 8 games three actions are tried twice each; with 5 the two likeliest of them are."""
    anything = boards.replace(mask=jnp.ones_like(boards.mask))
    network = prefers(0.001, 0.5, 0.3, 0.0001, 0.199, 0.0009)
    found = planned(Open(), {}, anything, 8, network)
    tried = np.asarray(found.value) != 7
    assert tried.any(0).tolist() == [False, True, True, False, True, False]
    assert (np.asarray(found.policy)[:, [0, 3, 5]] == 0).all()
    wanted = np.asarray(anything.wanted)
    known = np.isin(wanted, [1, 2, 4])
    assert known.any()
    assert (~known).any()
    assert np.asarray(found.action)[known].tolist() == wanted[known].tolist()
    assert (np.asarray(found.action)[~known] == 1).all()
    few = np.asarray(planned(Open(), {}, anything, 5, network).action)
    np.testing.assert_array_equal(few, np.where(wanted == 2, 2, 1))


def test_luck_does_not_decide_between_actions(boards: Boards) -> None:
    """What a step brings is drawn, whatever the action: on the same worlds all bring the same."""

    class Lottery(Open):
        def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
            after, step = super().step(keys, states, actions)
            drawn = jax.vmap(jax.random.uniform)(jax.random.wrap_key_data(keys))
            return after, step.replace(reward=drawn)

    anything = boards.replace(mask=jnp.ones_like(boards.mask))
    found = planned(Lottery(), {}, anything, 18, prefers(0.2, 0.3, 0.5, 0, 0, 0))
    assert (np.asarray(found.action) == 2).all()
    np.testing.assert_allclose(np.asarray(found.policy)[:, :3], 1 / 3, rtol=1e-5)
    assert np.asarray(found.value)[:, 2].std() > 0.01


def test_a_world_on_which_an_action_is_not_valid_tells_nothing_of_it(boards: Boards) -> None:
    class Barred(Open):
        def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
            return states.replace(mask=states.mask.at[:, 2].set(False))

    all_valid = boards.replace(mask=jnp.ones_like(boards.mask), wanted=0 * boards.wanted + 2)
    found = planned(Barred(), {}, all_valid, 8, prefers(1e-9, 0.6, 0.4, 1e-9, 1e-9, 1e-9))
    assert (np.asarray(found.action) == 1).all()
    assert (np.asarray(found.value)[:, 2] == 7).all()


def test_it_goes_for_what_its_agent_learned_to_own(boards: Boards) -> None:
    class Collecting(Open):
        """What is rewarded elsewhere is owned here."""

        has_possessions = True

        def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
            after, step = super().step(keys, states, actions)
            nothing = jnp.zeros_like(step.reward)
            shaping = Shaping(nothing, nothing, nothing, gained=step.reward)
            return after, step.replace(reward=nothing, shaping=shaping)

    anything = boards.replace(mask=jnp.ones_like(boards.mask))
    network = prefers(*[1 / ACTIONS] * ACTIONS)
    owning = dataclasses.replace(SIGNAL, owned_reward_end=100.0)
    found = planned(Collecting(), {}, anything, 12, network, owning)
    np.testing.assert_array_equal(found.action, anything.wanted)
    without = planned(Collecting(), {}, anything, 12, network)
    assert (np.asarray(without.action) != np.asarray(anything.wanted)).any()


@pytest.mark.parametrize(("truncates", "after"), [(False, 0.0), (True, 0.1 * 7)])
def test_what_comes_after_an_end_counts_only_where_the_game_was_cut_off_by_a_limit(
    boards: Boards, truncates: bool, after: float
) -> None:
    last = boards.replace(
        mask=jnp.ones_like(boards.mask), time=jnp.full_like(boards.time, LENGTH - 1)
    )
    found = planned(Open(truncates), {}, last, 12, prefers(*[1 / ACTIONS] * ACTIONS))
    is_wanted = np.arange(ACTIONS) == np.asarray(last.wanted)[:, None]
    np.testing.assert_allclose(found.value, is_wanted + after, atol=2e-3)


def test_where_only_one_action_is_likely_it_is_taken_at_once(boards: Boards) -> None:
    anything = boards.replace(mask=jnp.ones_like(boards.mask))
    certain = planned(Open(), {}, anything, 8, prefers(0.001, 0.996, 0.001, 0.001, 0.0005, 0.0005))
    assert (np.asarray(certain.action) == 1).all()
    assert (np.asarray(certain.policy)[:, 1] == 1).all()
    assert (np.asarray(certain.value) == 7).all()


def test_games_are_played_on_only_where_a_plan_is_wanted(
    boards: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "_AT_ONCE_ON_CPU", 12)  # those of one board
    anything = boards.replace(mask=jnp.ones_like(boards.mask))
    wanted = jnp.arange(BOARDS) % 3 == 0
    even = prefers(*[1 / ACTIONS] * ACTIONS)
    keys = key_of_each(seed_key(2), jnp.arange(BOARDS, dtype=jnp.uint32))
    found = Planner(Open(), even, SIGNAL, 12)({}, keys, anything, wanted)
    assert ((np.asarray(found.value) != 7).any(1) == np.asarray(wanted)).all()


def test_a_plan_is_the_same_whatever_boards_are_planned_for_beside_it(
    params: Any, boards: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = planned(Open(), params, boards, 8)
    monkeypatch.setattr(planner_module, "_AT_ONCE_ON_CPU", 5 * 8)
    np.testing.assert_array_equal(together.action, planned(Open(), params, boards, 8).action)


@pytest.mark.parametrize("devices", [1, 4])
def test_looking_ahead_wins_every_game_on_any_mesh(params: Any, devices: int) -> None:
    planner = Planner(Open(), NETWORK, SIGNAL, 32)
    played = Evaluation(
        Open(), NETWORK, mesh.over(jax.devices()[:devices]), planner.look_ahead
    ).beside_random(params, seed=1, games=16)
    assert played["agent"][RETURN].tolist() == [LENGTH] * 16
    assert played["random"][RETURN].mean() < 0.7 * LENGTH


def test_a_player_that_looks_ahead_shows_what_it_found(params: Any, boards: Boards) -> None:
    env = Open()
    policy = Policy(env, NETWORK, params, "a test", 0, SIGNAL)
    player = Player(policy, seed=3, number=0, planner=Planner(env, NETWORK, SIGNAL, 32))
    some = int(jnp.argmax(boards.mask.sum(-1)))
    one = jax.tree.map(lambda leaf: leaf[some : some + 1], boards)
    nothing = np.zeros(0, np.float32)
    action, probabilities, value = player.choose(nothing, np.asarray(one.mask[0]), 0, one)
    assert action == int(one.wanted[0]) == int(np.argmax(probabilities))
    assert value == pytest.approx(1, abs=0.5)


def test_an_environment_that_does_not_say_what_is_hidden_is_not_planned_on(
    params: Any, boards: Boards
) -> None:
    assert not Toy().tells_what_is_hidden
    assert Open().tells_what_is_hidden
    with pytest.raises(NotImplementedError, match="toy does not say what is hidden"):
        planned(Toy(), params, boards, 8)
