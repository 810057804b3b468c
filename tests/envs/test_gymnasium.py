"""HackMatrix-v0 as users of Gymnasium use it."""

from __future__ import annotations

import copy
import functools
import pickle
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hackmatrix  # noqa: F401  (registers the environment)
from hackmatrix import game
from hackmatrix.envs import hosted
from hackmatrix.envs.gymnasium_env import HackMatrixEnv
from hackmatrix.envs.hosted import HostedGames

GAMES = 4
TURNS = 60


@pytest.fixture(scope="module")
def env() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("HackMatrix-v0").unwrapped


@pytest.fixture(scope="module")
def games() -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    return gymnasium.make_vec("HackMatrix-v0", num_envs=GAMES, render_mode="rgb_array")


def random_valid(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An action for each mask [E, 28]; 0 where none is valid."""
    return (rng.random(masks.shape) * masks).argmax(-1)


def run(code: str) -> str:
    return subprocess.check_output([sys.executable, "-c", code], text=True)


def test_importing_the_package_registers_it_without_loading_jax() -> None:
    code = "import sys, hackmatrix, gymnasium; gymnasium.spec('HackMatrix-v0'); print(*sys.modules)"
    loaded = run(code).split()
    assert "gymnasium" in loaded
    assert not {"jax", "hackmatrix.envs", "hackmatrix.game"} & set(loaded)


def test_the_package_works_where_gymnasium_cannot_be_imported(tmp_path: Any) -> None:
    (tmp_path / "gymnasium.py").write_text("raise ImportError('a library of it is missing')")
    code = f"import sys; sys.path.insert(0, '{tmp_path}'); import hackmatrix.game; print('plays')"
    assert run(code) == "plays\n"


def test_environments_of_a_process_share_compiled_programs() -> None:
    HostedGames(boards=1).new_games()
    made = hosted._compiled_turn.cache_info().misses
    HostedGames(boards=1).new_games()
    assert hosted._compiled_turn.cache_info().misses == made


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_plays_on_like_the_original(env: Any, copied: Any) -> None:
    env.reset(seed=1)
    other = copied(env)
    for action in (env.action_masks().argmax() for _ in range(4)):
        (seen, *results), (other_seen, *other_results) = env.step(action), other.step(action)
        np.testing.assert_array_equal(seen, other_seen)
        assert results[:3] == other_results[:3]


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_the_checker_of_gymnasium_accepts_the_environment(render_mode: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("HackMatrix-v0", render_mode=render_mode).unwrapped)


def test_the_checker_of_stable_baselines_accepts_the_environment(env: Any) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs PyTorch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(env)


def test_an_episode_is_a_game_by_the_rules(env: Any) -> None:
    observation, info = env.reset(seed=0)
    env.action_space.seed(0)
    total, terminated = 0.0, False
    parts = dict.fromkeys(game.PARTS, 0)
    while not terminated:
        assert env.observation_space.contains(observation)
        np.testing.assert_array_equal(info["action_mask"], env.action_masks())
        action = env.action_space.sample(info["action_mask"].astype(np.int8))
        observation, reward, terminated, truncated, info = env.step(action)
        total += reward
        parts = {name: parts[name] + info["reward_parts"][name] for name in parts}
        assert not truncated
    assert info["died"] or info["won"] or info["invalid"]
    assert info["died"] == (info["hp"] == 0)
    assert total == pytest.approx(sum(parts.values()), abs=1e-3)
    assert observation[5] == pytest.approx((info["stage"] - 1) / 7)


def test_an_invalid_action_ends_the_game_without_reward(env: Any) -> None:
    before, _ = env.reset(seed=1)
    after, reward, terminated, _, info = env.step(int(np.argmin(env.action_masks())))
    assert terminated
    assert info["invalid"]
    assert reward == 0
    np.testing.assert_array_equal(before, after)


def test_a_game_that_is_over_must_be_reset(env: Any) -> None:
    env.reset(seed=1)
    env.step(int(np.argmin(env.action_masks())))
    with pytest.raises(gymnasium.error.ResetNeeded, match="this game is over: call reset"):
        env.step(int(np.argmax(env.action_masks())))
    env.reset()
    env.step(int(np.argmax(env.action_masks())))


@pytest.mark.parametrize("action", [99, -1, 28, 1.5, "up"])
def test_an_action_that_is_not_in_the_space_is_refused_and_changes_nothing(
    env: Any, games: Any, action: Any
) -> None:
    env.reset(seed=1)
    games.reset(seed=1)
    before = env.action_masks()
    with pytest.raises(gymnasium.error.InvalidAction, match="must be integers from 0 to 27"):
        env.step(action)
    with pytest.raises(gymnasium.error.InvalidAction, match="must be integers from 0 to 27"):
        games.step(np.array([0, action] + [0] * (games.num_envs - 2)))
    np.testing.assert_array_equal(env.action_masks(), before)


def test_an_action_of_one_game_is_one_integer(env: Any) -> None:
    env.reset(seed=1)
    with pytest.raises(gymnasium.error.InvalidAction, match="must be one integer, not the array"):
        env.step(np.array([0]))


def test_games_differ_after_each_reset_but_not_after_the_same_seed(env: Any) -> None:
    def openings(count: int) -> list[bytes]:
        return [env.reset()[0].tobytes() for _ in range(count)]

    env.reset(seed=7)
    first = openings(5)
    env.reset(seed=7)
    assert openings(5) == first
    env.reset(seed=8)
    assert not set(openings(5)) & set(first)
    assert len(set(first)) == 5


def test_calls_before_the_first_reset_are_refused() -> None:
    env: Any = gymnasium.make("HackMatrix-v0", render_mode="ansi").unwrapped
    games: Any = gymnasium.make_vec("HackMatrix-v0", num_envs=2, render_mode="rgb_array")
    calls = [env.action_masks, env.render, games.action_masks, games.render]
    for call in (*calls, lambda: env.step(0), lambda: games.step(np.zeros(2, int))):
        with pytest.raises(gymnasium.error.ResetNeeded):
            call()


def test_an_unsupported_render_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of ansi, rgb_array"):
        HackMatrixEnv(render_mode="svg")
    with pytest.raises(ValueError, match="must be rgb_array"):
        gymnasium.make_vec("HackMatrix-v0", num_envs=2, render_mode="ansi")


def test_games_of_a_vector_environment_equal_separate_ones(games: Any) -> None:
    """The step after the end of a game begins the next one and plays no turn of it. A reset of some
    games does not change the others.
    """
    alone = gymnasium.make_vec("HackMatrix-v0", num_envs=GAMES, vectorization_mode="sync")
    rng, ended = np.random.default_rng(3), 0

    def alike(call: str, *given: Any, **named: Any) -> Any:
        """Calls both and returns our results. Infos of games that a reset skips are ignored."""
        (*results, info), (*expected, expected_info) = (
            getattr(each, call)(*given, **copy.deepcopy(named)) for each in (games, alone)
        )
        only = functools.partial(jax.tree.map, lambda leaf: leaf[expected_info["_stage"]])
        np.testing.assert_equal([*results, only(info)], [*expected, only(expected_info)])
        np.testing.assert_array_equal(info["action_mask"], games.action_masks())
        return *results, info

    alike("reset", seed=20)
    for turn in range(TURNS):
        step = alike("step", random_valid(games.action_masks(), rng))
        assert not step[3].any()
        ended += step[2].sum()
        if turn % 5 == 0:
            some = np.arange(GAMES) == turn // 5 % GAMES
            alike("reset", seed=[turn, None, None, turn], options={"reset_mask": some})
    assert ended > GAMES


def test_infos_of_many_games_have_the_form_that_gymnasiums_wrappers_expect(games: Any) -> None:
    wrappers = gymnasium.wrappers.vector
    wrapped = wrappers.DictInfoToList(wrappers.RecordEpisodeStatistics(games))
    wrapped.reset(seed=0)
    games.action_space.seed(0)
    returns: list[float] = []
    while len(returns) < 3:
        masks = tuple(games.action_masks().astype(np.int8))
        *_, infos = wrapped.step(games.action_space.sample(masks))
        assert not any(each["invalid"] for each in infos)
        assert len(infos) == GAMES
        assert all(set(each["reward_parts"]) == set(game.PARTS) for each in infos)
        returns += [each["episode"]["r"] for each in infos if "episode" in each]
    assert all(np.isfinite(returns))


def test_a_list_of_seeds_gives_each_game_its_own(games: Any) -> None:
    first, _ = games.reset(seed=[5, 6, 5, None])
    np.testing.assert_array_equal(first[0], first[2])
    assert (first[0] != first[1]).any()
    alone, _ = games.reset(seed=5)
    np.testing.assert_array_equal(alone[:2], first[:2])
    for seed in (np.int64(5), np.array([5, 6, 7, 8])):
        np.testing.assert_array_equal(games.reset(seed=seed)[0], alone)
    with pytest.raises(ValueError, match="expected 4 seeds, one per game, got 2"):
        games.reset(seed=[5, 6])
    with pytest.raises(gymnasium.error.InvalidAction, match="expected 4 actions, one per game"):
        games.step(np.zeros(3, int))


def test_a_reset_of_no_game_is_refused_and_the_first_must_be_of_all_games() -> None:
    games: Any = gymnasium.make_vec("HackMatrix-v0", num_envs=2)
    for mask in ([False, False], [True], [1, 0]):
        with pytest.raises(ValueError, match=r"must be bool\[2\], True for at least one game"):
            games.reset(options={"reset_mask": np.array(mask)})
    with pytest.raises(ValueError, match="the first reset begins all games"):
        games.reset(options={"reset_mask": np.array([True, False])})


def test_games_without_a_seed_differ() -> None:
    games: Any = gymnasium.make_vec("HackMatrix-v0", num_envs=GAMES)
    first, _ = games.reset(seed=[1, None, None, None])
    assert len({each.tobytes() for each in first}) == GAMES


def test_games_of_a_vector_environment_are_truncated_at_the_limit_of_steps() -> None:
    limited: Any = {"max_episode_steps": 3}
    games: Any = gymnasium.make_vec("HackMatrix-v0", num_envs=GAMES, **limited)
    games.reset(seed=0)
    masks = games.action_masks()
    steps = [games.step(games.action_masks().argmax(-1)) for _ in range(7)]
    assert not any(step[2].any() for step in steps)
    truncated = [step[3].tolist() for step in steps]
    assert truncated == [[number in (2, 6)] * GAMES for number in range(7)]  # the fourth is a reset
    np.testing.assert_array_equal(games.reset(seed=0)[1]["action_mask"], masks)
    assert not games.step(masks.argmax(-1))[3].any()


def test_minus_one_means_no_limit_of_steps_and_counts_of_zero_are_refused() -> None:
    games: Any = gymnasium.make_vec("HackMatrix-v0", num_envs=1, max_episode_steps=-1)
    games.reset(seed=0)
    assert not games.step(games.action_masks().argmax(-1))[3].any()
    wrongs: list[dict[str, Any]] = [{"max_episode_steps": 0}, {"num_envs": 0}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}=0 must be at least 1"):
            gymnasium.make_vec("HackMatrix-v0", **wrong)


def test_a_picture_of_each_game_is_drawn(games: Any) -> None:
    games.reset(seed=2)
    pictures = games.render()
    assert len(pictures) == GAMES
    alone = gymnasium.make("HackMatrix-v0", render_mode="rgb_array")
    alone.reset(seed=3)
    np.testing.assert_array_equal(pictures[1], alone.render())
    assert (pictures[0] != pictures[1]).any()


def test_maskable_ppo_of_stable_baselines_trains(env: Any) -> None:
    """After a few updates it still plays poorly, but its weights have changed and it plays on."""
    contrib = pytest.importorskip("sb3_contrib", reason="needs PyTorch")
    settings = {"n_steps": 256, "batch_size": 128, "n_epochs": 2, "seed": 0, "device": "cpu"}
    model = contrib.MaskablePPO("MlpPolicy", gymnasium.make("HackMatrix-v0"), **settings)
    before = [weights.detach().clone() for weights in model.policy.parameters()]
    model.learn(512)
    assert all(
        (weights != old).any() and weights.isfinite().all()
        for weights, old in zip(model.policy.parameters(), before, strict=True)
    )
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert len(lengths) > 5
    assert np.mean(lengths) > 20  # an invalid action would have ended the game
    observation, _ = env.reset(seed=0)
    action, _ = model.predict(observation, action_masks=env.action_masks())
    assert env.action_masks()[action]
