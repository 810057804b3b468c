"""Several processes are one trainer: the same run, and the same decisions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from jax.profiler import ProfileData

from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.runs.places import Disk
from tests.processes.pod import BATCH, NO_GAMES, Pod
from tests.processes.states import assert_same_run, state_of

UPDATES = 12
HALFWAY, LAST_STEP = UPDATES // 2 * BATCH, UPDATES * BATCH
SHORT = (
    f"--config.total_timesteps={LAST_STEP}", f"--config.save_interval={UPDATES // 2}",
    "--config.eval_interval_minutes=1e-9", "--config.eval_games=8",
    "--config.replica_check_interval=6",
)  # fmt: skip
TRACED = "9:2"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Pod]:
    """Undisturbed runs of 1 process on two devices and of 2 processes on four."""
    pods = {}
    for processes in (1, 2):
        # Only one asks for a trace, which may change when all of them end a chunk.
        only = {0: [f"--profile={TRACED}"]} if processes == 2 else {}
        directory = tmp_path_factory.mktemp(f"of-{processes}")
        with Pod(directory, processes, *SHORT, devices=2 * processes, only=only) as pod:
            assert pod.exit_codes() == [0] * processes, pod.output(0)
        pods[processes] = pod
    return pods


def last_state(pod: Pod) -> TrainState:
    return state_of(Disk(pod.run), LAST_STEP)


def test_two_processes_train_the_same_run_as_one(whole: dict[int, Pod]) -> None:
    assert_same_run(last_state(whole[1]), last_state(whole[2]))


@pytest.mark.slow
def test_four_processes_train_the_same_run_as_one(whole: dict[int, Pod], tmp_path: Path) -> None:
    with Pod(tmp_path, 4, *SHORT, NO_GAMES, devices=8) as pod:
        assert pod.exit_codes() == [0] * 4, pod.output(0)
    assert_same_run(last_state(whole[1]), last_state(pod))


def test_the_first_process_prints_and_writes_for_all(whole: dict[int, Pod]) -> None:
    pod = whole[2]
    assert "Done at step" in pod.output(0)
    for line in pod.output(1).splitlines():
        assert line.startswith(
            ("launch.train: loading JAX", "launch.train: waiting for the other processes")
        )
    assert len((pod.run / "metrics.jsonl").read_text().splitlines()) == UPDATES
    assert len(list((pod.run / "tensorboard").glob("events*"))) == 1


def test_two_processes_play_the_same_games_at_the_end_as_one(whole: dict[int, Pod]) -> None:
    alone, together = (
        json.loads((whole[processes].run / "evaluation.json").read_text()) for processes in (1, 2)
    )
    assert together["random"] == alone["random"]


def test_two_processes_have_the_same_evaluations_and_checkpoints_as_one(
    whole: dict[int, Pod],
) -> None:
    """They agree on when to evaluate, and on what was best."""
    curves = []
    for pod in whole.values():
        lines = map(json.loads, (pod.run / "metrics.jsonl").read_text().splitlines())
        curves.append([line["eval/mean_episode_return"] for line in lines])
    assert curves[0] == curves[1]
    assert len(curves[0]) == UPDATES
    assert whole[1].steps() == whole[2].steps()


def test_a_run_saved_by_two_processes_resumes_in_one(whole: dict[int, Pod], tmp_path: Path) -> None:
    shutil.copytree(whole[2].run, tmp_path / "run")
    for step in whole[2].steps():
        if step > HALFWAY:
            shutil.rmtree(tmp_path / f"run/checkpoints/{step}")
    with Pod(tmp_path, 1, *SHORT, NO_GAMES, "--resume=run", devices=2) as alone:
        assert alone.exit_codes() == [0], alone.output(0)
    assert f"Resuming from the checkpoint at step {HALFWAY:,}" in alone.output(0)
    assert_same_run(last_state(alone), last_state(whole[1]))


def test_the_first_process_traces_the_updates_that_it_is_asked_to(whole: dict[int, Pod]) -> None:
    traces = whole[2].run / "tensorboard/plugins/profile"
    (trace,) = traces.glob("*/*.xplane.pb")
    planes = ProfileData.from_file(str(trace)).planes
    names = [event.name for plane in planes for line in plane.lines for event in line.events]
    assert len([name for name in names if re.match(r"\$program\.py:\d+ run$", name)]) == 2
    assert any(name.startswith("all-reduce") for name in names)
    assert f"The trace is in {traces}" in whole[2].output(0)
    assert not (whole[1].run / "tensorboard/plugins").exists()
