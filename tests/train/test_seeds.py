"""Several seeds in one command."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from configs import default
from hackmatrix.errors import UserError
from hackmatrix.estimates import Estimate
from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel import mesh
from hackmatrix.train import seeds
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Request
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import results
from hackmatrix.train.runs.directory import create
from hackmatrix.train.runs.places import place
from tests.train.reporting.test_results import GAME, games
from tests.train.reporting.told_metrics import evaluation
from tests.train.settings import config, resolved
from tests.train.test_session import ROOT, environment

SMALL = [
    "--config.env=gymnax:CartPole-v1", "--config.num_envs=8", "--config.num_steps=16",
    "--config.hidden_dim=16", "--config.total_timesteps=256", "--config.eval_episodes=8",
    "--config.lr=1e-3", "--config.num_seeds=2", "--config.seed=4", "--config.run_name=two",
]  # fmt: skip


def train(workdir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launch.train", f"--workdir={workdir}", *SMALL, *arguments],
        cwd=ROOT, env=environment(), text=True, capture_output=True, timeout=240, check=False,
    )  # fmt: skip


def test_each_seed_has_a_run_and_repeating_the_command_completes_what_is_missing(
    tmp_path: Path,
) -> None:
    done = train(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = {seed: tmp_path / f"two-seed{seed}" for seed in (4, 5)}
    evaluations = {
        seed: json.loads((run / "evaluation.json").read_text()) for seed, run in runs.items()
    }
    for seed, run in runs.items():
        assert json.loads((run / "config.json").read_text())["seed"] == seed
    means = [evaluations[seed]["agent"]["train/mean_episode_return"]["mean"] for seed in (4, 5)]
    assert means[0] != means[1]
    summary = json.loads((tmp_path / "two-seeds.json").read_text())
    over_both = summary["agents"]["train/mean_episode_return"]
    assert over_both["mean"] == pytest.approx(sum(means) / 2)
    assert over_both["low"] < min(means) < max(means) < over_both["high"]
    table = done.stdout.partition("Means over 2 seeds")[2].splitlines()
    shown = {line[:24].strip(): line[24:].split()[0] for line in table[1:] if line[24:].strip()}
    assert shown["return"] == f"{over_both['mean']:.2f}"  # as titled in each agent's table
    assert shown["came to an end (%)"] == "100.00"
    (runs[5] / "evaluation.json").write_text("{")
    again = train(tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Resuming two-seed5" in again.stdout
    assert "two-seed4\n" not in again.stdout  # which is complete
    assert json.loads((tmp_path / "two-seeds.json").read_text()) == summary
    longer = train(tmp_path, "--config.total_timesteps=384", "--resume=auto")
    assert longer.returncode == 0, longer.stdout + longer.stderr
    assert longer.stdout.count("Done at step 384") == 2


def test_a_seed_that_was_evaluated_and_then_stopped_in_further_training_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All were evaluated at step 256. One trained for more steps and was stopped; one was to train
    for one more update, and was stopped before it had saved anything.
    """
    sizes: dict[str, Any] = {"num_envs": 8, "num_steps": 16}
    for seed, last_step, until in ((0, 256, 256), (1, 512, 256), (2, 256, 384)):
        named = {"run_name": f"a-seed{seed}", "seed": seed, "total_timesteps": until, **sizes}
        run = create(tmp_path, resolved(**named))
        run.evaluation.write_text(evaluation(256))
        (run.directory / f"checkpoints/{last_step}").mkdir(parents=True)
    begun: list[str] = []

    def run_session(request: Request, *_: object, is_last: bool) -> int:
        assert not is_last
        begun.append(request.settings["run_name"])
        return DONE if request.settings["seed"] == 1 else RETRY

    monkeypatch.setattr(seeds, "run_session", run_session)
    assert run_seeds(tmp_path, run_name="a", num_seeds=3) == RETRY
    assert begun == ["a-seed1", "a-seed2"]
    assert "the same command again trains what is left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lr": 0.02}, "a-seed0 has finished training with lr=0.001, so it is not comparable"),
        ({"lr": None}, "a-seed0 has finished training with lr=0.001"),
        ({"total_timesteps": 128}, "a-seed0 has finished training with total_timesteps=256"),
        ({"lr": 0.02, "total_timesteps": 512}, None),  # to which all are trained further
        ({"time_limit_minutes": 1.0, "lr": 0.02}, "finished training with lr=0.001"),
        ({"time_limit_minutes": 1.0}, None),  # it ended by its steps
        ({"total_timesteps": 300}, None),  # as many updates as 256
        ({"num_minibatches": None, "watchdog_minutes": 5.0, "eval_episodes": 100,
          "eval_games": 64}, None),
    ],
)  # fmt: skip
def test_agents_that_were_trained_with_different_settings_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str | None
) -> None:
    """They are refused before a seed is trained, as the finished ones would stay as they are."""
    alike: dict[str, Any] = {"num_envs": 8, "num_steps": 16, "lr": 0.001, "total_timesteps": 256}
    run = create(tmp_path, resolved(run_name="a-seed0", seed=0, **alike))
    assert "num_minibatches" in run.config.chosen
    run.evaluation.write_text(evaluation(256))
    (run.directory / "checkpoints/256").mkdir(parents=True)
    begun: list[str] = []

    def run_session(request: Request, *_: object, is_last: bool) -> int:
        begun.append(request.settings["run_name"])
        return RETRY

    monkeypatch.setattr(seeds, "run_session", run_session)
    if message:
        with pytest.raises(UserError, match=message):
            run_seeds(tmp_path, run_name="a", num_seeds=2, **{**alike, **given})
    else:
        assert run_seeds(tmp_path, run_name="a", num_seeds=2, **{**alike, **given}) == RETRY
    assert begun == ([] if message else ["a-seed0"])


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"time_limit_minutes": 2.0}, None),
        ({"time_limit_minutes": None}, None),
        ({"time_limit_minutes": 0.5}, "time_limit_minutes=1.0"),
        ({"lr": 0.02}, "lr="),
    ],
)
def test_a_seed_that_ended_by_its_time_limit_resumes_only_with_a_longer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], refused: str | None
) -> None:
    alike: dict[str, Any] = {"num_envs": 8, "num_steps": 16, "time_limit_minutes": 1.0}
    run = create(tmp_path, resolved(run_name="a-seed0", seed=0, **alike))
    run.evaluation.write_text(evaluation(256))
    monkeypatch.setattr(seeds, "run_session", lambda *_, is_last: RETRY)
    asked = {**alike, **given}
    if refused:
        with pytest.raises(UserError, match=f"a-seed0 has finished training with {refused}"):
            run_seeds(tmp_path, run_name="a", num_seeds=2, **asked)
    else:
        assert run_seeds(tmp_path, run_name="a", num_seeds=2, **asked) == RETRY


def test_the_means_are_not_printed_while_an_evaluation_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its seed is evaluated again; here that does not help. The directories were renamed."""
    sizes: dict[str, Any] = {"num_envs": 8, "num_steps": 16, "total_timesteps": 256}
    for seed, told in enumerate((evaluation(256), evaluation(256, episodes=None))):
        run = create(tmp_path, resolved(run_name=f"a-seed{seed}", seed=seed, **sizes))
        run.evaluation.write_text(told)
        run.directory.rename(tmp_path / f"b-seed{seed}")
    begun: list[str] = []

    def run_session(request: Request, *_: object, is_last: bool) -> int:
        begun.append(request.settings["run_name"])
        return DONE

    monkeypatch.setattr(seeds, "run_session", run_session)
    with pytest.raises(UserError, match=r"b-seed1/evaluation\.json is missing or damaged"):
        run_seeds(tmp_path, run_name="b", num_seeds=2, **sizes)
    assert begun == ["b-seed1"]


def test_means_over_different_versions_of_a_module_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        create(tmp_path, resolved(run_name=f"a-seed{seed}")).evaluation.write_text(evaluation(256))
    trained = {"a-seed0": [{"own_modules": {"my_net": "older"}}]}
    for again, changed in (("newer", True), ("older", False)):
        trained["a-seed1"] = [{}, {"own_modules": {"my_net": again}}]
        monkeypatch.setattr(seeds, "starts", lambda run: trained[run.name])
        seeds._tell(place(tmp_path), "a", list(trained))
        assert ("my_net has changed between these runs" in capsys.readouterr().out) == changed


def run_seeds(workdir: Path, **given: Any) -> int:
    settings = dict(default.get_config())
    request = Request({**settings, **given}, given, workdir)
    return seeds.run_seeds(request, Mock(), Supervision())


def test_errors_of_the_last_seed_are_reported_before_the_first_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="num_seeds=20000 must be a whole number from 1 to"):
        run_seeds(tmp_path, run_name="a", num_seeds=20_000)
    with pytest.raises(UserError, match="the last seed would be 4294967296, but a seed must"):
        run_seeds(tmp_path, run_name="a", num_seeds=2, seed=2**32 - 1)
    (tmp_path / "a-seed1").mkdir()
    (tmp_path / "a-seed1/notes").touch()
    with pytest.raises(UserError, match="a-seed1 already exists"):
        run_seeds(tmp_path, run_name="a", num_seeds=2)
    assert [each.name for each in tmp_path.iterdir()] == ["a-seed1"]
    create(tmp_path, resolved(run_name="b-seed1", seed=1, network="centred"))
    with pytest.raises(UserError, match="b-seed1 was begun with network='centred', so it is not"):
        run_seeds(tmp_path, run_name="b", num_seeds=2, network="conv")


@pytest.mark.parametrize(
    ("algorithm", "env"), [("ppo", "gymnax:CartPole-v1"), ("expert", "tests.search.open:Open")]
)
def test_agents_that_differ_only_in_numeric_settings_share_one_compiled_program(
    algorithm: str, env: str
) -> None:
    """A sweep over them compiles nothing anew."""
    usual = {
        "algorithm": algorithm, "env": env, "simulations": 2, "anneal_lr": True, "hidden_dim": 8,
    }  # fmt: skip
    others = {
        "lr": 3e-4, "total_timesteps": 77_777, "gamma": 0.9, "gae_lambda": 0.5, "vf_coef": 0.1,
        "ent_coef": 0.3, "clip_eps": 0.3, "max_grad_norm": 2.0, "seed": 4_294_967_295,
    }  # fmt: skip
    one_device = mesh.over(jax.devices()[:1])
    programs = [Program(config(**{**usual, **given}), one_device) for given in ({}, others)]
    one, other = (program.lower().as_text() for program in programs)
    assert one == other


def test_several_seeds_need_a_run_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="num_seeds needs --config"):
        run_seeds(tmp_path, num_seeds=2)
    assert not list(tmp_path.iterdir())


def test_several_seeds_without_a_final_evaluation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="eval_episodes must not be 0"):
        run_seeds(tmp_path, run_name="a", num_seeds=2, eval_episodes=0)
    assert not list(tmp_path.iterdir())


def test_intervals_over_seeds_show_how_much_agents_differ() -> None:
    agents = [{"return": Estimate(mean, mean, mean)} for mean in (1.0, 2.0, 3.0)]
    agents[0]["measured of one alone"] = agents[0]["return"]
    (each,) = results.over_seeds(agents, GAME).values()
    assert each.mean == 2
    # Student's t with 2 degrees of freedom: 4.3027 standard errors; with 1, 12.706 of them.
    assert each.high - each.mean == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    (of_two,) = results.over_seeds(agents[:2], GAME).values()
    assert of_two.high - of_two.mean == pytest.approx(12.706 / 2, rel=1e-4)


def test_an_interval_over_seeds_is_no_narrower_than_that_of_an_agent() -> None:
    """Agents that play the same games share their luck, even if they all win equally many."""
    for wins in (0, 32):
        alike = [results.summary(games(256, wins), GAME)] * 3
        tag = "stats/win_rate"
        assert results.over_seeds(alike, GAME)[tag] == pytest.approx(alike[0][tag])
    single = [{"return": Estimate(mean, math.nan, math.nan)} for mean in (1.0, 2.0, 3.0)]
    (of_single_games,) = results.over_seeds(single, GAME).values()
    assert of_single_games.high - 2 == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    one_is_constant = [{"return": Estimate(5, 3, 7)}] * 2 + [
        {"return": Estimate(5, *[math.nan] * 2)}
    ]
    (each,) = results.over_seeds(one_is_constant, GAME).values()
    assert (each.low, each.high) == pytest.approx((5 - 4 / 3, 5 + 4 / 3))


@pytest.mark.parametrize(
    ("tag", "means", "least", "most"),
    [
        ("stats/win_rate", (0.9, 0.95, 1.0), 0.0, 1.0),
        ("stats/win_rate", (0.0, 0.0, 0.01), 0.0, 1.0),
        ("kinds/programs", (0.0, 0.0, 0.01), 0.0, 1.0),
        ("stats/mean_stage", (8.5, 8.9, 9.0), 1.0, 9.0),
        ("train/mean_episode_return", (-1.0, 0.0, 1.0), -math.inf, math.inf),
    ],
)
def test_an_interval_over_seeds_ends_at_the_limits_of_its_metric(
    tag: str, means: tuple[float, ...], least: float, most: float
) -> None:
    (each,) = results.over_seeds(
        [{tag: Estimate(mean, mean, mean)} for mean in means], GAME
    ).values()
    half = 4.303 * np.std(means, ddof=1) / math.sqrt(3)
    middle = np.mean(means)
    assert each.low == pytest.approx(max(middle - half, least), abs=1e-3)
    assert each.high == pytest.approx(min(middle + half, most), abs=1e-3)
