"""Runs that repeatedly evaluate their agent on the same games, and keep the best checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import hackmatrix
from configs import default
from hackmatrix.envs import make
from hackmatrix.errors import UserError
from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel import mesh
from hackmatrix.rl.evaluation import EVALUATION_SEED, Evaluation, curve
from hackmatrix.rl.tally import LENGTH, RETURN
from hackmatrix.train.guards.signals import Signals
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Request
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import evaluator as evaluating
from hackmatrix.train.reporting.evaluator import Evaluator
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.schedule import Schedule
from hackmatrix.train.session import run_session
from tests.networks.grid import PATIENCE
from tests.train.reporting.told_metrics import evaluation
from tests.train.settings import config

ROOT = Path(__file__).parents[2]
GRID = "tests.networks.grid:GridWalk"
GAMES, CHUNKS, BATCH = 20, 6, 16 * 16
ALWAYS = 1e-9  # minutes: after each chunk
SETTINGS = {
    "env": GRID, "num_envs": 16, "num_steps": 16, "hidden_dim": 8, "num_layers": 1, "lr": 0.02,
    "ent_coef": 0.01, "log_interval": 2, "total_timesteps": 2 * CHUNKS * BATCH,
    "keep_checkpoints": 1, "keep_milestones": 0, "eval_games": GAMES, "eval_episodes": 0,
}  # fmt: skip


def no_game(*_: Any) -> Any:
    raise AssertionError("games of this environment cannot be drawn")


def trained(workdir: Path, name: str, minutes: float, **more: Any) -> Run:
    """Trains a run on all devices, with an evaluation every so many minutes, and returns it."""
    given = {**SETTINGS, "run_name": name, "eval_interval_minutes": minutes, **more}
    settings = dict(default.get_config())
    request = Request({**settings, **given}, given, workdir)
    assert run_session(request, no_game) == DONE
    found = directory.find(workdir, name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same run twice: evaluated after each chunk, and never."""
    workdir = tmp_path_factory.mktemp("runs")
    return {
        name: trained(workdir, name, minutes)
        for name, minutes in (("measured", ALWAYS), ("plain", 0.0))
    }


def lines(run: Run) -> list[dict[str, float]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def steps(run: Run) -> list[int]:
    return sorted(int(each) for each in run.checkpoints.names())


def best_step(run: Run) -> int:
    """Returns the first step with the highest return in evaluation."""
    score: Any = lambda line: line[curve(RETURN)]  # noqa: E731
    return int(max(lines(run), key=score)["step"])


def test_an_evaluation_is_logged_with_the_chunk_before_it(runs: dict[str, Run]) -> None:
    logged = lines(runs["measured"])
    assert [line["step"] for line in logged] == [
        2 * BATCH * chunk for chunk in range(1, CHUNKS + 1)
    ]
    for line in logged:
        assert line["eval/ended"] == 1
        assert line["eval/mean_episode_return"] == line["eval/reached"] > 0
        assert 1 <= line["eval/mean_episode_length"] <= PATIENCE
        assert line["perf/seconds_evaluate"] > 0
    assert len({line["eval/mean_episode_length"] for line in logged}) > 1  # as it learns


def test_a_run_that_is_never_evaluated_has_no_evaluation_curves(runs: dict[str, Run]) -> None:
    assert not [tag for line in lines(runs["plain"]) for tag in line if tag.startswith("eval/")]


def test_evaluation_games_are_the_same_on_another_mesh(runs: dict[str, Run]) -> None:
    policy = policies.of_run(runs["measured"])
    alone = Evaluation(policy.env, policy.network, mesh.over(jax.devices()[:1]))
    played = alone.play(policy.params, EVALUATION_SEED, GAMES)
    last = lines(runs["measured"])[-1]
    for tag in (RETURN, LENGTH, "grid/reached"):
        assert last[curve(tag)] == pytest.approx(float(played[tag].mean()))


def test_evaluations_do_not_change_the_training(runs: dict[str, Run]) -> None:
    curves = [
        [{tag: value for tag, value in line.items() if tag.startswith("train/")} for line in logged]
        for logged in map(lines, runs.values())
    ]
    assert curves[0] == curves[1]
    last = f"{2 * CHUNKS * BATCH}/record/metadata"
    one, other = (json.loads((run.checkpoints / last).read()) for run in runs.values())
    assert one["digests"] == other["digests"]


def test_the_best_checkpoint_is_kept_and_can_be_loaded(runs: dict[str, Run]) -> None:
    run = runs["measured"]
    assert steps(run) == sorted({best_step(run), 2 * CHUNKS * BATCH})
    newest, best = (policies.of_run(run, best=best) for best in (False, True))
    assert newest.title == f"measured at step {2 * CHUNKS * BATCH:,}"
    assert best.title == f"measured at step {best_step(run):,}, its best"


def test_a_run_that_was_never_evaluated_has_no_best_checkpoint(runs: dict[str, Run]) -> None:
    words = r"no evaluated checkpoint .* use the newest instead"
    with pytest.raises(UserError, match=words):
        policies.of_run(runs["plain"], best=True)


def test_an_evaluation_is_due_every_interval_of_training_over_all_starts_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, messages = config(**SETTINGS, eval_interval_minutes=10.0), list[str]()
    program = Program(settings, mesh.over(jax.devices()[:1]))
    run, say, end = Run(tmp_path, settings), messages.append, 2 * CHUNKS
    evaluator = Evaluator(run, program, Schedule(settings), say, goes_on=lambda: False)
    when = (end, 599.0), (1, 599.0), (2, 601.0), (end, 601.0)
    assert [evaluator.is_due(*each) for each in when] == [False, False, True, True]
    learner = program.first_state().learner
    assert evaluator.measure(1, learner) is None  # it was asked to stop
    told = f"Stopped during the evaluation at step {BATCH}: eval/ has no point there, and --best "
    assert messages == [f"{told}does not consider that agent"]
    later = Schedule(settings, 1, BATCH, 590.0)
    resumed = Evaluator(run, program, later, say, goes_on=lambda: True)
    assert [resumed.is_due(2, 595.0), resumed.is_due(3, 605.0)] == [False, True]
    play = Mock(return_value={resumed._goal: np.ones(3)})
    monkeypatch.setattr(resumed._evaluation, "play", play)
    monkeypatch.setattr(evaluating, "broadcast", lambda _: 630.0)  # the first process's clock
    assert resumed.measure(3, learner)
    assert [resumed.is_due(4, 1229.0), resumed.is_due(5, 1230.0)] == [False, True]


def resume_with_final_games(run: Run) -> None:
    """Resumes the run, which has ended, with a final evaluation of 8 games."""
    trained(run.directory.parent, run.name, 0.0, resume=run.name, eval_episodes=8)


@pytest.mark.parametrize("earlier", [None, '{"step": 256}', '{"step": Infinity}'])
def test_a_final_evaluation_that_a_finished_run_lacks_is_played_without_training(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str], earlier: str | None
) -> None:
    run = runs["plain"]
    run.evaluation.unlink(missing_ok=True)
    if earlier:
        run.evaluation.write_text(earlier)
    resume_with_final_games(run)
    output = capsys.readouterr().out
    assert "Compiling the training program" not in output
    assert f"Done at step {2 * CHUNKS * BATCH:,}" in output
    assert json.loads(run.evaluation.read_text())["episodes"] == 8


def test_resuming_a_finished_run_prints_that_it_has_finished_and_does_nothing(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    run, step = runs["plain"], 2 * CHUNKS * BATCH
    run.evaluation.write_text(evaluation(step))
    resume_with_final_games(run)
    *_, finished, longer = capsys.readouterr().out.splitlines()
    where = run.directory
    assert finished == f"  The run has finished at step {step:,}; its results are in {where}"
    assert longer == f"  To train it longer: --resume={where} --config.total_timesteps={2 * step}"
    assert run.evaluation.read_text() == evaluation(step)


def test_a_finished_run_ignores_settings_that_it_was_not_trained_with(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    run, step = runs["plain"], 2 * CHUNKS * BATCH
    before = (run.directory / "config.json").read_text()
    run.evaluation.write_text(evaluation(step, episodes=4))
    trained(run.directory.parent, run.name, 0.0, resume=run.name, ent_coef=0.3, eval_episodes=8)
    output = " ".join(capsys.readouterr().out.split())
    ignored = "ent_coef=0.3 will neither have an effect nor be saved: the run keeps the settings"
    assert f"warning: nothing is left to train, so {ignored}" in output
    assert json.loads(run.evaluation.read_text())["episodes"] == 8  # more than it had
    assert (run.directory / "config.json").read_text() == before


@pytest.mark.parametrize(("is_last", "code"), [(True, DONE), (False, RETRY)])
def test_a_signal_after_the_final_games_exits_as_done_only_in_the_last_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_last: bool, code: int
) -> None:
    signals, codes = Signals(), []  # only a replay is missing then, unless more seeds follow

    def play_final_games(*given: Any) -> None:
        given[-1]()  # it has played them
        codes.append(signals._code)

    monkeypatch.setattr(Evaluator, "play_final_games", play_final_games)
    settings = {**default.get_config(), **SETTINGS, "eval_episodes": 8, "total_timesteps": BATCH}
    request = Request(settings, SETTINGS, tmp_path)
    run_session(request, no_game, Supervision(signals), is_last=is_last)
    assert codes == [code]


def test_an_agent_that_is_trained_again_is_evaluated_again(tmp_path: Path) -> None:
    """The checkpoint of the evaluated agent is lost."""
    ends: dict[str, Any] = {"total_timesteps": 4 * BATCH, "eval_episodes": 8}
    run = trained(tmp_path, "again", 0.0, save_interval=2, **ends, keep_checkpoints=2)
    before = json.loads(run.evaluation.read_text())
    assert (before["step"], steps(run)) == (4 * BATCH, [2 * BATCH, 4 * BATCH])
    (run.checkpoints / str(4 * BATCH)).remove()
    trained(tmp_path, "again", 0.0, resume="again", lr=0.5, **ends)
    after = json.loads(run.evaluation.read_text())
    assert after["step"] == 4 * BATCH
    assert after["agent"] != before["agent"]


def test_a_run_at_its_time_limit_prints_that_and_how_to_train_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = {"time_limit_minutes": 0.005, "total_timesteps": 100_000_000}
    run = trained(tmp_path, "short", 0.0, **limit)
    assert "  The time limit is reached: time_limit_minutes=0.005" in capsys.readouterr().out
    (step,) = steps(run)
    assert step < 100_000_000
    trained(tmp_path, "short", 0.0, resume="short", **limit)
    *_, longer = capsys.readouterr().out.splitlines()
    longer_limit = "--config.time_limit_minutes=0.01"
    assert longer == f"  To train it longer: --resume={run.directory} {longer_limit}"
    lower = {"time_limit_minutes": 1e-5, "total_timesteps": 200_000_000}
    trained(tmp_path, "short", 0.0, resume="short", **lower)
    *_, longer = capsys.readouterr().out.splitlines()
    assert longer.endswith("--config.total_timesteps=200000000 --config.time_limit_minutes=1")
    more = {"time_limit_minutes": None, "total_timesteps": step + BATCH}
    trained(tmp_path, "short", 0.0, resume="short", **more)
    assert steps(run) == [step + BATCH]


def test_the_game_is_scored_by_its_stages_and_other_environments_by_their_return() -> None:
    assert make("hackmatrix").goal == "stats/mean_stage"
    assert make(GRID).goal is None


def test_the_json_of_an_evaluation_has_both_unless_only_greedy_play_is_asked_for(
    runs: dict[str, Run],
) -> None:
    run = runs["measured"]
    agent = hackmatrix.load(run.name, workdir=run.directory.parent, best=True)
    both = agent.evaluate(40).as_json()
    named = f"--workdir={run.directory.parent}", f"--run={run.name}", "--best"
    command = [sys.executable, "-m", "launch.evaluate", *named, "--episodes=40", "--greedy"]
    done = subprocess.run([*command, "--json"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    greedy = json.loads(done.stdout)
    assert both.keys() - greedy.keys() == {"agent_greedy"}
    assert (both["greedy"], greedy["greedy"]) == (False, True)
    assert (both["best"], greedy["best"]) == (True, True)
    assert both["agent_greedy"] == greedy["agent"] != both["agent"]
    assert both["step"] == greedy["step"] == best_step(run)
