"""Training from Python, in this process, on CartPole, which compiles faster than the game."""

from __future__ import annotations

import functools
import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import flax.linen as nn
import numpy as np
import pytest

import hackmatrix
from configs import cpu
from hackmatrix.api import training
from hackmatrix.envs.metrics import Metric, Section
from hackmatrix.envs.protocol import Step
from hackmatrix.networks.torso import Torso
from hackmatrix.ppo import PPO
from hackmatrix.train import session
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.evaluator import Evaluator
from hackmatrix.train.reporting.sink_list import Sinks
from hackmatrix.train.runs import directory
from tests.bucket_service import BUCKET
from tests.envs.toy import Toy

BATCH = 8 * 16
CARTPOLE: dict[str, Any] = {
    "env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 16, "hidden_dim": 8, "num_layers": 1,
    "num_minibatches": 1, "update_epochs": 1, "lr": 1e-3, "log_interval": 2, "eval_episodes": 0,
}  # fmt: skip


class Free(Toy):
    """Its reward lacks the axis of the boards."""

    def step(self, keys: Any, states: Any, actions: Any) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(reward=0.0)


def make_free() -> Free:
    return Free()


class Timed(PPO):
    """Declares a metric that the trainer declares, too."""

    sections = (*PPO.sections, Section("Mine", (Metric("perf/steps_per_second", "speed"),)))


class Blind(Torso):
    """A torso whose output has no features."""

    @nn.compact
    def __call__(self, parts: Any) -> Any:
        return next(iter(parts.values()))[..., :0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hackmatrix.Run:
    """A finished run, trained in a thread, in which some notebooks run their cells."""
    settings = {**CARTPOLE, "total_timesteps": 6 * BATCH, "run_name": "mine"}
    workdir = tmp_path_factory.mktemp("runs")
    with ThreadPoolExecutor(1) as threads:
        training = threads.submit(hackmatrix.train, cpu.get_config(), workdir=workdir, **settings)
        return training.result()


def test_settings_given_by_keyword_override_the_configuration(run: hackmatrix.Run) -> None:
    assert run.config.gamma == cpu.get_config().gamma != 0.99
    assert run.config.hidden_dim == 8
    assert run.config.total_timesteps == 6 * BATCH


def test_the_metrics_of_a_run_are_arrays_over_its_chunks(run: hackmatrix.Run) -> None:
    np.testing.assert_array_equal(run.metrics["step"], [2 * BATCH, 4 * BATCH, 6 * BATCH])
    assert np.isfinite(run.metrics["train/entropy"]).all()
    assert {values.shape for values in run.metrics.values()} == {(3,)}


def test_an_agent_is_loaded_by_any_name_of_its_run(run: hackmatrix.Run) -> None:
    assert run.name == "mine"
    workdir = Path(run.directory).parent
    titles = {
        run.agent().title,
        hackmatrix.load(run).title,
        hackmatrix.load("mine", workdir=workdir).title,
        hackmatrix.load(run.directory).title,
        hackmatrix.load("auto", workdir=workdir).title,
    }
    assert titles == {f"mine at step {6 * BATCH:,}"}


def test_an_interrupted_run_is_saved_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By SIGINT, as Ctrl-C or the button of a notebook sends it."""

    def interrupt() -> None:
        while not (tmp_path / "stopped/metrics.jsonl").exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    endless = {**CARTPOLE, "total_timesteps": 10**9}
    stopped = hackmatrix.train(cpu.get_config(), workdir=tmp_path, run_name="stopped", **endless)
    saved = int(stopped.metrics["step"][-1])
    assert 0 < saved < 10**9
    assert not stopped.is_finished
    assert stopped.evaluation is None
    assert stopped.agent().policy.step == saved
    monkeypatch.setattr(session, "changed_modules", changed := Mock(return_value=["my_net"]))
    monkeypatch.setattr(session, "edited_modules", Mock(return_value=["my_net"]))
    rest = hackmatrix.train(resume=stopped, total_timesteps=saved + 2 * BATCH, eval_episodes=4)
    said = "".join(capsys.readouterr())
    assert "my_net: changed since this run's last start" in said
    assert len(changed.call_args.args[0]) == 1  # the start before this one
    assert "my_net: edited since its import, which is what trains" in said
    assert rest.name == stopped.name
    assert rest.is_finished
    assert (rest.evaluation or {})["episodes"] == 4
    assert rest.metrics["step"][-1] == saved + 2 * BATCH


@pytest.mark.parametrize("error", [None, KeyError("theirs"), SystemExit("theirs")])
def test_a_function_is_told_of_the_metrics_and_can_stop_the_run(
    tmp_path: Path, error: BaseException | None
) -> None:
    told = []

    def tell(step: int, metrics: dict[str, float]) -> bool:
        told.append((step, metrics["train/entropy"]))
        if error and len(told) == 2:
            raise error
        return len(told) > 1

    endless = {**CARTPOLE, "total_timesteps": 10**9, "run_name": "mine"}
    with pytest.raises(type(error), match="theirs") if error else nullcontext():
        assert not hackmatrix.train(workdir=tmp_path, tell=tell, **endless).is_finished
    assert [step for step, _ in told[:2]] == [2 * BATCH, 4 * BATCH]
    saved = hackmatrix.load("mine", workdir=tmp_path).policy.step
    assert saved == 6 * BATCH  # the next chunk was under way
    assert len(told) == (2 if error else 3)


def test_an_interrupt_while_a_function_is_told_leaves_out_no_line() -> None:
    said: list[str] = []
    listener = training._Listener(Mock(side_effect=KeyboardInterrupt), Mock())
    sinks = Sinks(listener, say=said.append)
    with pytest.raises(KeyboardInterrupt):
        sinks.write(1, {})
    sinks.close()
    assert said == []


@pytest.mark.parametrize("given", [None, 5, [1], np.array([True, True]), False, np.False_])
def test_only_true_stops_the_run(tmp_path: Path, given: Any) -> None:
    """Functions that plot or write return something of their own."""
    asked = Mock()
    training._Listener(lambda *_: given, asked).write(1, {})
    asked.ask_to_stop.assert_not_called()
    for true in (True, np.True_):
        training._Listener(lambda *_, true=true: true, asked).write(1, {})
    assert asked.ask_to_stop.call_count == 2


@pytest.mark.usefixtures("bucket_service")
def test_the_evaluation_of_a_run_in_a_bucket_is_read_without_its_other_files(
    run: hackmatrix.Run, tmp_path: Path
) -> None:
    """Its metrics may be gigabytes."""
    found = directory.Run(tmp_path / "copy", run.config, f"{BUCKET}/api/run")
    told = {"episodes": 4, "seed": 0, "agent": {"stats/a": {"mean": 2.0, "low": 1.0, "high": 3.0}}}
    (found.place / "evaluation.json").write(json.dumps(told))
    assert hackmatrix.Run(found, is_finished=True).evaluation == told
    assert not found.directory.exists()


def test_an_interrupted_final_evaluation_is_made_up_for_when_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = {**CARTPOLE, "total_timesteps": 2 * BATCH, "eval_episodes": 4}
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "play_final_games", Mock(side_effect=KeyboardInterrupt))
        stopped = hackmatrix.train(cpu.get_config(), workdir=tmp_path, **start)
    assert not stopped.is_finished
    assert stopped.agent().policy.step == 2 * BATCH
    rest = hackmatrix.train(resume=stopped)
    assert rest.is_finished
    assert (rest.evaluation or {})["episodes"] == 4
    (Path(rest.directory) / "checkpoints" / str(3 * BATCH)).mkdir()  # as if it had been trained on
    assert hackmatrix.Run(rest._run, is_finished=True).evaluation is None


@pytest.mark.parametrize(("place", "during"), [(Program, "compile"), (directory, "provenance")])
def test_a_run_that_is_interrupted_before_it_trains_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, during: str
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, during, interrupted)
    with pytest.raises(KeyboardInterrupt):
        hackmatrix.train(cpu.get_config(), workdir=tmp_path, run_name="mine", **CARTPOLE)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("place", "begun", "meanwhile"),
    [(Program, "prefetch", "first_state"), (session, "load_ahead", "compile")],
    ids=["the training program is looked for", "what metrics are written with is imported"],
)
def test_what_training_would_wait_for_is_started_beside_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, begun: str, meanwhile: str
) -> None:
    started = Mock()
    monkeypatch.setattr(place, begun, started)
    monkeypatch.setattr(Program, meanwhile, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        hackmatrix.train(cpu.get_config(), workdir=tmp_path, **CARTPOLE)
    started.assert_called_once_with()


def test_a_run_whose_first_files_could_not_be_written_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that the failed start had kept would block the next one."""
    start = functools.partial(hackmatrix.train, workdir=tmp_path, run_name="mine", **CARTPOLE)
    full = OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(directory, "provenance", Mock(side_effect=full))
        with pytest.raises(hackmatrix.UserError, match="cannot be written to: No space left"):
            start()
    assert start(total_timesteps=2 * BATCH).metrics["step"][-1] == 2 * BATCH


def test_a_state_that_could_not_be_saved_is_reported_before_training(tmp_path: Path) -> None:
    message = "learner/params/.* has no elements, and checkpoints cannot store empty arrays"
    with pytest.raises(hackmatrix.UserError, match=message):
        hackmatrix.train(workdir=tmp_path, **{**CARTPOLE, "network": f"{__name__}:Blind"})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ({"env": f"{__name__}:Free"}, r"Free: step: reward must be float32\[2\], one number per"),
        ({"env": make_free}, r"make_free: step: reward must be float32\[2\]"),
        ({"algorithm": Timed}, "declare perf/steps_per_second more than once: rename"),
    ],
)
def test_an_invalid_plugin_is_reported_before_a_run_begins(
    tmp_path: Path, plugin: dict[str, Any], message: str
) -> None:
    with pytest.raises(hackmatrix.UserError, match=message):
        hackmatrix.train(workdir=tmp_path, **{**CARTPOLE, **plugin})
    assert not [*tmp_path.iterdir()]
