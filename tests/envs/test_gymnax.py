"""The game as users of Gymnax use it, with Gymnax 1.x and with the versions before."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import Mock

import gymnax.wrappers.purerl
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from hackmatrix import game
from hackmatrix.envs import gymnax_env, invalid_actions
from hackmatrix.envs.gymnax_env import (
    EnvParams,
    EnvState,
    HackMatrixGymnax,
    HackMatrixGymnax0,
)
from hackmatrix.envs.invalid_actions import COST_PART, INVALID_COST
from tests.envs import pure_client, reference_games

GAMES = 16
TURNS = 50
LIMIT = 9

env = HackMatrixGymnax()
step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
mask_of = jax.jit(jax.vmap(env.get_action_mask))


class Turn(NamedTuple):
    """A step of random play, all of it as host arrays."""

    keys: np.ndarray
    before: Any
    actions: np.ndarray
    observation: np.ndarray
    state: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    information: dict[str, Any]


def play(params: EnvParams, turns: int) -> Iterator[Turn]:
    rng = np.random.default_rng(0)
    begun = [env.reset(key)[1] for key in jax.random.split(jax.random.PRNGKey(1), GAMES)]
    state = jax.tree.map(lambda *leaves: np.stack(leaves), *begun)
    for turn in range(turns):
        keys = jax.random.split(jax.random.PRNGKey(turn), GAMES)
        actions = (rng.random((GAMES, game.ACTIONS)) * np.asarray(mask_of(state))).argmax(-1)
        results = step(keys, state, actions, params)
        yield Turn(*jax.tree.map(np.asarray, (keys, state, actions, *results)))
        state = results[1]


def test_a_step_equals_that_of_the_game_and_begins_a_new_game_where_one_ends() -> None:
    """As in Gymnax, the key is split into one for the step and one for the new game."""
    ends = 0
    for turn in play(env.default_params, TURNS):
        step_keys, reset_keys = np.asarray(jax.vmap(jax.random.split)(turn.keys)).swapaxes(0, 1)
        after, outcome = reference_games.step(step_keys, turn.before.board, turn.actions)
        fresh = reference_games.new_games(reset_keys)
        seen, seen_fresh = (reference_games.observe(states) for states in (after, fresh))
        expected = reference_games.chosen(outcome.done, seen_fresh, seen)
        np.testing.assert_array_equal(turn.observation, expected)
        np.testing.assert_array_equal(turn.information["final_observation"], seen)
        np.testing.assert_array_equal(turn.reward, outcome.reward)
        np.testing.assert_array_equal(turn.terminated, outcome.done)
        assert not turn.truncated.any()
        jax.tree.map(np.testing.assert_array_equal, turn.information["reward_parts"], outcome.parts)
        over = env.is_terminated(EnvState(after, turn.before.time + 1), env.default_params)
        np.testing.assert_array_equal(over, outcome.done)
        for name, value in (
            ("stage", after.stage),
            ("score", after.player.score),
            ("hp", after.player.hp),
            ("won", outcome.won),
            ("died", outcome.died),
            ("stage_completed", outcome.stage_completed),
        ):
            np.testing.assert_array_equal(turn.information[name], value)
        ends += int(turn.terminated.sum())
    assert ends > GAMES // 2


def test_games_begin_on_several_devices_with_a_count_of_steps_of_their_own() -> None:
    """In shard_map a loop cannot begin with a constant that then varies across devices."""

    def begin(keys: jax.Array) -> EnvState:
        _, state = jax.vmap(env.reset)(keys)
        assert jax.typeof(state.time) == jax.typeof(state.board.turn)
        return state

    mesh, split = AbstractMesh((2,), ("boards",)), PartitionSpec("boards")
    begun = jax.shard_map(begin, mesh=mesh, in_specs=split, out_specs=split)
    jax.eval_shape(begun, jax.ShapeDtypeStruct((4, 2), jnp.uint32))


def test_the_limit_of_steps_truncates_games_but_not_as_they_complete_a_stage() -> None:
    cut = late = 0
    for turn in play(EnvParams(max_steps_in_episode=LIMIT), 30 * LIMIT):
        time, information = turn.before.time + 1, turn.information
        begun = information["stage_completed"] & ~turn.terminated
        np.testing.assert_array_equal(
            turn.truncated, (time >= LIMIT) & ~turn.terminated & ~information["stage_completed"]
        )
        np.testing.assert_array_equal(information["truncated"], turn.truncated)
        over = turn.terminated | turn.truncated
        np.testing.assert_array_equal(turn.state.time, np.where(over, 0, time))
        assert (turn.state.board.stage[turn.truncated] == 1).all()
        differs = (turn.observation != information["final_observation"]).any(-1)
        np.testing.assert_array_equal(differs, over)
        cut += int(turn.truncated.sum())
        late += int((begun & (time >= LIMIT)).sum())
    assert cut > GAMES
    assert late > 0


@pytest.mark.parametrize("kind", [HackMatrixGymnax, HackMatrixGymnax0])
def test_the_observation_and_the_discount_can_be_computed_from_a_state(kind: Any) -> None:
    one, key = kind(), jax.random.PRNGKey(3)
    observation, state = one.reset(key)
    np.testing.assert_array_equal(one.observe(key, state, None, one.default_params), observation)
    np.testing.assert_array_equal(one.get_obs(state), observation)
    assert one.discount(state, one.default_params) == 1
    won = state.replace(board=state.board.replace(stage=jnp.int32(9)))
    assert one.discount(won, one.default_params) == 0


def test_observations_and_actions_are_in_their_spaces() -> None:
    params = env.default_params
    space = env.observation_space(params)
    for turn in play(params, 20):
        assert turn.observation.shape == (GAMES, *space.shape)
        assert turn.observation.dtype == space.dtype
        assert all(space.contains(observation) for observation in turn.observation)
    assert env.action_space(params).n == env.num_actions == game.ACTIONS


def test_the_wrappers_of_gymnax_work() -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), GAMES)
    wrapped = gymnax.wrappers.purerl.LogWrapper(
        gymnax.wrappers.purerl.FlattenObservationWrapper(env)
    )

    def a_step(keys: jax.Array) -> Any:
        _, state = jax.vmap(wrapped.reset)(keys)
        return jax.vmap(wrapped.step)(keys, state, jnp.zeros(GAMES, jnp.int32))

    observation, _, _, terminated, truncated, information = jax.eval_shape(a_step, keys)
    assert observation.shape == information["final_observation"].shape == (GAMES, 1545)
    assert terminated.dtype == truncated.dtype == bool


def test_step_env_follows_the_choice_for_invalid_actions_and_is_traced_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its information shows the choice: only with "cost" is the cost a part of the reward. The step
    is traced once, however often it is called outside of a compiled function.
    """
    gymnax_env._step_of_one.cache_clear()
    traced = Mock(wraps=invalid_actions.take_action)
    monkeypatch.setattr(invalid_actions, "take_action", traced)

    def a_step(key: jax.Array) -> Any:
        costly = HackMatrixGymnax(invalid="cost")
        _, state = costly.reset_env(key, costly.default_params)
        return costly.step_env(key, state, 0, costly.default_params)

    for _ in range(2):
        *_, information = jax.eval_shape(lambda key: a_step(key), jax.random.PRNGKey(0))
    assert {*information["reward_parts"]} == {*game.PARTS, COST_PART}
    traced.assert_called_once()


@pytest.mark.parametrize("kind", [HackMatrixGymnax, HackMatrixGymnax0])
def test_a_copy_of_an_environment_equals_it_and_so_shares_compiled_programs(kind: Any) -> None:
    assert copy.deepcopy(kind("cost")) == kind("cost")
    assert hash(copy.deepcopy(kind())) == hash(kind())
    assert kind("cost") != kind("redraw")
    assert HackMatrixGymnax() != HackMatrixGymnax0()


def test_a_client_of_the_older_interface_plays_game_after_game() -> None:
    """Without masks: invalid actions cost a little, and games are truncated after LIMIT steps."""
    envs, steps, updates = 8, 64, 3
    play = jax.jit(pure_client.train, static_argnums=(1, 3, 4, 5))
    params = EnvParams(max_steps_in_episode=LIMIT)
    key = jax.random.PRNGKey(0)
    played = play(key, HackMatrixGymnax0(invalid="cost"), params, envs, steps, updates)
    # The information of a step consists of single numbers: it has no observation.
    assert {leaf.shape for leaf in jax.tree.leaves(played.info)} == {(updates, steps, envs)}
    seen, reward, done, information = jax.tree.map(
        lambda leaf: np.asarray(leaf).reshape(updates * steps, *leaf.shape[2:]),
        (played.observation, played.reward, played.done, played.info),
    )
    assert done.dtype == bool
    np.testing.assert_array_equal(done, information["terminated"] | information["truncated"])
    np.testing.assert_array_equal(
        information["terminated"], information["died"] | information["won"]
    )
    np.testing.assert_array_equal(information["truncated"], information["length_so_far"] == LIMIT)
    invalid = information["invalid"]
    assert 0.5 < invalid.mean() < 1
    assert (reward[invalid] == np.float32(-INVALID_COST)).all()
    stays = (seen[1:] == seen[:-1]).all(-1)
    assert stays[(invalid & ~done)[:-1]].all()
    np.testing.assert_array_equal(information["length_so_far"][1:][done[:-1]], 1)
    np.testing.assert_allclose(reward, sum(information["reward_parts"].values()), atol=1e-5)


@pytest.mark.slow  # the client above covers the interface
def test_an_unmodified_ppo_learns_to_choose_valid_actions() -> None:
    """It uses no mask. Invalid actions end its games, so it learns to avoid them."""
    from rejax import PPO  # slow to import, and each process of the tests imports this module

    steps = 20 * 64 * GAMES
    ppo = PPO.create(
        env=HackMatrixGymnax0(),
        num_envs=GAMES,
        num_steps=64,
        num_epochs=4,
        num_minibatches=4,
        learning_rate=1e-3,
        total_timesteps=steps,
        eval_freq=steps,
        skip_initial_evaluation=True,
    )
    ppo = ppo.replace(eval_callback=lambda *_: ())  # whole games take long to compile
    trained, _ = jax.jit(ppo.train)(jax.random.PRNGKey(0))
    boards = reference_games.new_games(np.arange(512, dtype=np.uint32).reshape(256, 2))
    masks = reference_games.valid_actions(boards)
    keys = jax.random.split(jax.random.PRNGKey(1), 256)
    act = jax.jit(jax.vmap(ppo.make_act(trained)))
    actions = act(reference_games.observe(boards), keys)
    share_valid = masks[np.arange(256), np.asarray(actions)].mean()
    by_chance = masks.mean()
    assert share_valid > 3 * by_chance
