"""Agents in Python: they act, are evaluated, and leave files behind."""

from __future__ import annotations

import errno
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import hackmatrix
from hackmatrix.api.results import Results
from hackmatrix.envs.hackmatrix_env import HackMatrix, is_drawable
from hackmatrix.report import games
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.rl.tally import RETURN
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.runs.directory import create
from tests.envs.toy import LENGTH, Toy
from tests.networks.grid import GridWalk
from tests.rl.rolled import mlp
from tests.search.open import Open
from tests.train.policies.saved_policies import saved_run
from tests.train.settings import resolved

GAMES = 8


class Variant(GridWalk):
    """A variant that inherits its name, and claims that it can be drawn."""

    is_drawable = True


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> hackmatrix.Agent:
    """An agent for CartPole, which compiles in seconds."""
    run = saved_run(tmp_path_factory.mktemp("runs"), env="gymnax:CartPole-v1")
    return hackmatrix.load(run.directory)


@pytest.fixture(scope="module")
def expert() -> hackmatrix.Agent:
    return hackmatrix.load("policies/expert")


def test_a_run_in_a_relative_directory_is_found_from_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = create(Path("runs"), resolved(run_name="mine"))
    made.metrics.write_text('{"step": 3, "time": 4}\n')
    run = hackmatrix.Run(made, is_finished=True)
    monkeypatch.chdir("/")
    assert run.directory == str(tmp_path / "runs/mine")
    assert run.metrics["step"] == [3]


def random_boards(boards: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((boards, 1545), np.float32), rng.random((boards, 28)) < 0.3


def test_the_repr_of_a_policy_is_short_and_omits_its_parameters(expert: hackmatrix.Agent) -> None:
    text = repr(expert.policy)
    assert "policies/expert" in text
    assert len(text) < 1000


def test_an_agent_takes_valid_actions_for_one_board_or_many(expert: hackmatrix.Agent) -> None:
    observations, masks = random_boards(64)
    actions = expert.act(observations, masks)
    assert masks[np.arange(64), actions].all()
    assert actions.dtype == np.int32
    alone = expert.act(observations[0], masks[0], greedy=True)
    assert type(alone) is int
    assert alone == expert.act(observations, masks, greedy=True)[0]
    none = expert.act(observations[:0], masks[:0])
    assert (none.dtype, len(none)) == (np.int32, 0)


def test_greedy_actions_are_those_of_the_exported_policy(expert: hackmatrix.Agent) -> None:
    observations, masks = random_boards(64)
    plain = NumpyPolicy("policies/expert")
    expected = [plain.act(*each) for each in zip(observations, masks, strict=True)]
    np.testing.assert_array_equal(expert.act(observations, masks, greedy=True), expected)
    np.testing.assert_array_equal(plain.act(observations, masks), expected)


def test_actions_are_drawn_with_their_probabilities(agent: hackmatrix.Agent) -> None:
    observations = np.zeros((10_000, 4), np.float32)
    logits, _ = agent.policy.network(agent.policy.params, {"observation": observations[0]})
    right = 1 / (1 + np.exp(logits[0] - logits[1]))
    assert 0.02 < right < 0.98
    share = agent.act(observations, np.ones((10_000, 2)), seed=1).mean()
    assert share == pytest.approx(right, abs=0.02)


def test_a_seed_repeats_its_actions_and_without_one_they_differ(
    agent: hackmatrix.Agent,
) -> None:
    observations, masks = np.zeros((256, 4)), np.ones((256, 2))
    first, again, other = (agent.act(observations, masks, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (agent.act(observations, masks) != agent.act(observations, masks)).any()


@pytest.mark.parametrize(
    ("observation", "mask", "message"),
    [
        (np.zeros(5), np.ones(2), "not [5] and [2]"),
        (np.zeros((3, 4)), np.ones(2), "not [3, 4] and [2]"),
        (np.zeros(4), np.zeros(2), "the mask allows no action"),
        (np.full(4, np.nan), np.ones(2), "the observation is not finite"),
    ],
)
def test_invalid_observations_and_masks_are_refused(
    agent: hackmatrix.Agent, observation: np.ndarray, mask: np.ndarray, message: str
) -> None:
    with pytest.raises(hackmatrix.UserError) as refused:
        agent.act(observation, mask)
    assert message in str(refused.value)


def test_results_are_available_as_numbers_as_text_and_as_html(agent: hackmatrix.Agent) -> None:
    results = agent.evaluate(GAMES, seed=5)
    assert list(results.players) == ["agent", "agent_greedy", "random"]
    returns = results.played["agent"]["train/mean_episode_return"]
    assert returns.shape == (GAMES,)
    estimate = results["train/mean_episode_return"]
    assert estimate.mean == pytest.approx(returns.mean())
    assert estimate.low < estimate.mean < estimate.high
    assert returns[results.best_game] == returns.max()
    shown = f"{estimate.mean:.2f}  ({estimate.low:.2f} to {estimate.high:.2f})"
    for form in (str(results), repr(results), results._repr_html_()):
        assert f"saved at step 4,096: {GAMES} games of seed 5" in form
        assert shown in re.sub("<[^>]*>", "", form)
        assert "agent, greedy" in form
    assert results._repr_html_().count("<table>") == 2
    copied = pickle.loads(pickle.dumps(agent)).evaluate(GAMES, seed=5)
    assert copied["train/mean_episode_return"] == estimate
    assert copied in (results, copied)
    assert copied != results


def test_with_a_plan_an_untrained_agent_plays_well() -> None:
    """In an environment where nothing is hidden."""
    network = mlp(Toy(), hidden_dim=8, num_layers=1)
    params = network.init(jax.random.key(0))
    signal = RewardSignal(gamma=0.1, potential_shaping=False)
    untrained = hackmatrix.Agent(Policy(Open(), network, params, "a test", 0, signal))
    results = untrained.evaluate(16, plan=32)
    assert list(results.players) == ["agent", "random"]
    assert RETURN in results
    assert {tag: results[tag] for tag in results} == results.players["agent"]
    assert results.played["agent"][RETURN].tolist() == [LENGTH] * 16
    assert results.as_json()["plan"] == 32
    assert results.title.startswith("a test at step 0, 32 games per move: 16 games of seed 0")


def test_watch_plays_the_given_game_in_the_given_way(
    expert: hackmatrix.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Mock()
    monkeypatch.setattr(games, "play", play)
    assert expert.watch(3, seed=5, greedy=True).episode is play.return_value
    assert play.call_args.args == (expert.policy, 5, 3, True)
    expert.watch(3, seed=5, plan=16)
    assert play.call_args.args == (expert.policy, 5, 3, False)
    assert play.call_args.kwargs["planner"].games == 16


def test_titles_say_how_the_agent_played(
    expert: hackmatrix.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Mock()
    monkeypatch.setattr(games, "record", record)
    for greedy, plan, suffix in (
        (False, 0, ""), (True, 0, ", the likeliest actions"), (False, 16, ", 16 games per move"),
    ):  # fmt: skip
        expert.watch(3, seed=5, greedy=greedy, plan=plan)
        assert record.call_args.args[0] == f"{expert.title}{suffix}, game 3 of seed 5"
        played = Results(expert.policy, 8, 0, greedy, plan, {})
        assert played.title == f"{expert.title}{suffix}: 8 games of seed 0, 95% intervals"


def test_wrong_arguments_are_refused_with_the_reason(
    agent: hackmatrix.Agent, expert: hackmatrix.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside_random = "hackmatrix.rl.evaluation.Evaluation.beside_random"
    monkeypatch.setattr(beside_random, Mock(side_effect=MemoryError))
    for refused, message in (
        (lambda: agent.evaluate(9000), "9,000 games do not fit in memory: play fewer"),
        (lambda: agent.evaluate(0), "games=0 must be at least 1"),
        (lambda: agent.evaluate(plan=16), "plan is not supported by gymnax:CartPole-v1.*redrawn"),
        (lambda: agent.evaluate(plan=-1), "plan=-1 must be a whole number from 0"),
        (lambda: agent.planner("4"), "plan='4' must be a whole number from 0"),  # type: ignore[arg-type]
        (lambda: agent.evaluate(plan=3), "plan=3 is too few games to compare two actions: it "),
        (lambda: agent.evaluate(plan=4097), "plan=4097 is too many games for each move: .* 4096"),
        (lambda: agent.evaluate(greedy=True, plan=16), "greedy and plan cannot be combined"),
        (lambda: expert.watch(greedy=True, plan=16), "greedy and plan cannot be combined"),
        (lambda: agent.watch(-1), "game=-1 must be a whole number from 0"),
        (
            lambda: agent.act(np.zeros(4), np.ones(2), seed=-1),
            "seed=-1 must be a whole number from 0",
        ),
        (lambda: agent.act(np.zeros(4), np.ones(2), seed=0.0), "seed=0.0 must be a whole"),  # type: ignore[arg-type]
        (lambda: agent.act(np.zeros(4), np.ones(2), seed=""), "seed='' must be a whole"),  # type: ignore[arg-type]
        (lambda: agent.evaluate(2.5), "games=2.5 must be a whole number from 0"),  # type: ignore[arg-type]
        (lambda: agent.watch(2**32), "game=4294967296 must be a whole number from 0"),
        (lambda: hackmatrix.load("x/policy.jax"), "use policy.npz beside it"),
        (lambda: agent.export("gs://b/exported"), "gs://b/exported is not a local path: write to"),
        (lambda: agent.export("a\0b"), "cannot be the name of a directory"),
        (lambda: hackmatrix.load("a\0b"), "cannot be the name of an agent"),
        (agent.watch, "games of gymnax:CartPole-v1 cannot be drawn"),
        (
            lambda: hackmatrix.load("policies/nobody"),
            "choose one of policies/centred, policies/champion",
        ),
        (lambda: agent.act("abc", np.ones(2)), "observations and masks must be arrays"),
        (lambda: hackmatrix.load(None), "None is not an agent: give a run, its name, policies"),  # type: ignore[arg-type]
        (lambda: hackmatrix.load("a", workdir=3), "3 is not a path: use a directory"),  # type: ignore[arg-type]
        (lambda: hackmatrix.load("nowhere.npz"), "there is no file nowhere.npz"),
        (lambda: hackmatrix.load("policies/expert", best=True), "only a run has a best one"),
    ):
        with pytest.raises(hackmatrix.UserError, match=message):
            refused()


def test_an_exported_agent_is_the_same_agent(
    agent: hackmatrix.Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    plain, compiled = agent.export("~/policies/mine")
    assert plain.parent == tmp_path / "policies/mine"
    assert compiled.stat().st_size
    observations, masks = np.eye(4), np.ones((4, 2))
    for named in plain, plain.parent, "~/policies/mine", "policies/mine":
        again = hackmatrix.load(named)
        np.testing.assert_array_equal(
            again.act(observations, masks, seed=0), agent.act(observations, masks, seed=0)
        )
        assert again.title == agent.title


def test_an_export_that_fails_leaves_the_previous_one_unchanged(
    agent: hackmatrix.Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(given: Any, **arrays: Any) -> None:
        if arrays:
            given.write(b"a half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    def files() -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    agent.export(tmp_path)
    before = files()
    for broken in "numpy.savez_compressed", "hackmatrix.api.exporting.artifact":
        with monkeypatch.context() as patched:
            patched.setattr(broken, full)
            with pytest.raises(OSError, match="No space left"):
                agent.export(tmp_path)
        assert files() == before
    later = hackmatrix.Agent(replace(agent.policy, step=8192))
    disk_that_fills = Mock(side_effect=[None, OSError(errno.ENOSPC, "No space left on device")])
    monkeypatch.setattr("os.fsync", disk_that_fills)
    with pytest.raises(OSError, match=r"No space left on device: .*/policy\.jax'"):
        later.export(tmp_path)
    assert files() == before


def test_an_agent_trained_on_a_variant_of_an_environment_plays_that_variant(tmp_path: Path) -> None:
    address = f"{__name__}:Variant"
    trained = hackmatrix.load(saved_run(tmp_path, env=address).directory)
    trained.export(tmp_path / "exported")
    for agent in trained, hackmatrix.load(tmp_path / "exported"):
        assert type(agent.env) is Variant
        assert agent.env.name == address
        with pytest.raises(hackmatrix.UserError, match="Variant cannot be drawn"):
            agent.watch()


def test_the_game_can_be_drawn_but_no_variant_of_it() -> None:
    class Rich(HackMatrix):
        pass

    assert is_drawable(HackMatrix().on("cpu", kernels=True).limited(9))
    assert not is_drawable(Rich())
