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

UPDATES = 20
HALFWAY, LAST_STEP = UPDATES // 2 * BATCH, UPDATES * BATCH
SHORT = (
    f"--config.total_timesteps={LAST_STEP}", f"--config.save_interval={UPDATES // 2}",
    "--config.eval_interval_minutes=1e-9", "--config.eval_games=8",
)  # fmt: skip
TRACED = "15:2"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Pod]:
    """A run that nobody disturbed, on eight devices of 1 and of 2 processes."""
    pods = {}
    for processes in (1, 2):
        # One asks for a trace, and for all that may be another moment to end a chunk.
        only = {0: [f"--profile={TRACED}"]} if processes == 2 else {}
        directory = tmp_path_factory.mktemp(f"of-{processes}")
        with Pod(directory, processes, *SHORT, only=only) as pod:
            assert pod.codes() == [0] * processes, pod.said(0)
        pods[processes] = pod
    return pods


def end(pod: Pod) -> TrainState:
    return state_of(Disk(pod.run), LAST_STEP)


def test_processes_give_the_run_of_one(whole: dict[int, Pod]) -> None:
    assert_same_run(end(whole[1]), end(whole[2]))


@pytest.mark.slow
def test_so_do_four_processes(whole: dict[int, Pod], tmp_path: Path) -> None:
    with Pod(tmp_path, 4, *SHORT, NO_GAMES) as pod:
        assert pod.codes() == [0] * 4, pod.said(0)
    assert_same_run(end(whole[1]), end(pod))


def test_the_first_process_speaks_and_writes_for_all(whole: dict[int, Pod]) -> None:
    pod = whole[2]
    assert "Done at step" in pod.said(0)
    for line in pod.said(1).splitlines():
        assert line.startswith(("launch.train: loading JAX", "launch.train: meeting"))
    assert len((pod.run / "metrics.jsonl").read_text().splitlines()) == UPDATES
    assert len(list((pod.run / "tensorboard").glob("events*"))) == 1


def test_processes_play_the_games_that_one_plays(whole: dict[int, Pod]) -> None:
    alone, together = (
        json.loads((whole[processes].run / "evaluation.json").read_text()) for processes in (1, 2)
    )
    assert together["random"] == alone["random"]


def test_processes_measure_by_the_games_that_one_measures_by(whole: dict[int, Pod]) -> None:
    """When it is time for that, and what was best, they agree on."""
    curves = []
    for pod in whole.values():
        told = map(json.loads, (pod.run / "metrics.jsonl").read_text().splitlines())
        curves.append([line["eval/mean_episode_return"] for line in told])
    assert curves[0] == curves[1]
    assert len(curves[0]) == UPDATES
    assert whole[1].steps() == whole[2].steps()


def test_what_two_processes_have_saved_goes_on_in_one(
    whole: dict[int, Pod], tmp_path: Path
) -> None:
    shutil.copytree(whole[2].run, tmp_path / "run")
    for step in whole[2].steps():
        if step > HALFWAY:
            shutil.rmtree(tmp_path / f"run/checkpoints/{step}")
    with Pod(tmp_path, 1, *SHORT, NO_GAMES, "--resume=run") as alone:
        assert alone.codes() == [0], alone.said(0)
    assert f"Resuming from the checkpoint at step {HALFWAY:,}" in alone.said(0)
    assert_same_run(end(alone), end(whole[1]))


def test_the_first_process_traces_the_updates_that_it_was_told_to(whole: dict[int, Pod]) -> None:
    traces = whole[2].run / "tensorboard/plugins/profile"
    (trace,) = traces.glob("*/*.xplane.pb")
    planes = ProfileData.from_file(str(trace)).planes
    names = [event.name for plane in planes for line in plane.lines for event in line.events]
    assert len([name for name in names if re.match(r"\$program\.py:\d+ run$", name)]) == 2
    assert any(name.startswith("all-reduce") for name in names)
    assert f"The trace is in {traces}" in whole[2].said(0)
    assert not (whole[1].run / "tensorboard/plugins").exists()
