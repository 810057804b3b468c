"""Several processes are one trainer: the same run, and the same decisions."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.parallel import mesh
from hackmatrix.train.checkpoints import Checkpoints
from hackmatrix.train.config import from_json
from hackmatrix.train.program import Program, TrainState
from tests.processes.pod import BATCH, LAST_STEP, UPDATES, Pod


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Pod]:
    """A run that nobody disturbed, on eight devices of 1, 2 and 4 processes."""
    pods = {}
    for processes in (1, 2, 4):
        with Pod(tmp_path_factory.mktemp(f"of-{processes}"), processes) as pod:
            assert pod.codes() == [0] * processes, pod.said(0)
        pods[processes] = pod
    return pods


def end(pod: Pod) -> TrainState:
    """The state at the end, on the devices of this process."""
    config = from_json((pod.run / "config.json").read_text())
    shapes = Program(config, mesh.over()).shapes()
    restored = Checkpoints(pod.run / "checkpoints", keep=9).restore_newest(shapes)
    assert restored is not None
    assert restored.step == LAST_STEP
    return restored.state


def assert_same_run(these: TrainState, those: TrainState) -> None:
    """Exactly the same boards, and so the same actions; the same parameters but for rounding."""

    def same(one: Any, other: Any) -> None:
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)

    jax.tree.map(np.testing.assert_array_equal, these.players, those.players)
    jax.tree.map(same, these.learner.params, those.learner.params)


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_give_the_run_of_one(whole: dict[int, Pod], processes: int) -> None:
    assert_same_run(end(whole[1]), end(whole[processes]))


@pytest.mark.parametrize("processes", [2, 4])
def test_the_first_process_speaks_writes_and_plays_for_all(
    whole: dict[int, Pod], processes: int
) -> None:
    pod = whole[processes]
    assert "Done at step" in pod.said(0)
    assert [pod.said(each) for each in range(1, processes)] == ["Starting JAX ..."] * (
        processes - 1
    )
    assert len((pod.run / "metrics.jsonl").read_text().splitlines()) == UPDATES
    assert len(list((pod.run / "tensorboard").iterdir())) == 1
    alone, together = (
        json.loads((each.run / "evaluation.json").read_text()) for each in (whole[1], pod)
    )
    assert together["random"] == alone["random"]


@pytest.mark.slow
def test_sigterm_to_one_stops_all_and_the_resumed_run_is_the_undisturbed_one(
    whole: dict[int, Pod], tmp_path: Path
) -> None:
    with Pod(tmp_path / "stopped", 2) as stopped:
        stopped.trains()
        stopped.processes[1].send_signal(signal.SIGTERM)
        assert stopped.codes() == [42, 42], stopped.said(0)
    saved = stopped.steps()[-1]
    assert saved < LAST_STEP
    assert f"Stopped at step {saved:,}" in stopped.said(0).replace("; --resume=run goes on", "")

    shutil.copytree(stopped.run, tmp_path / "alone/run")
    # Only one is told to resume, and that is enough.
    with Pod(tmp_path / "stopped", 2, only={0: ["--resume=auto"]}) as resumed:
        assert resumed.codes() == [0, 0], resumed.said(0)
    assert f"Going on from the checkpoint at step {saved:,}" in resumed.said(0)
    assert resumed.digests() == whole[2].digests()

    with Pod(tmp_path / "alone", 1, "--resume=run") as alone:
        assert alone.codes() == [0], alone.said(0)
    assert f"Going on from the checkpoint at step {saved:,}" in alone.said(0)
    assert_same_run(end(alone), end(whole[1]))
    assert saved % BATCH == 0
