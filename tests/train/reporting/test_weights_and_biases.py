"""Weights & Biases offline, with the real package: what it would send is read from its files."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hackmatrix.errors import UserError
from hackmatrix.train.config import Config
from hackmatrix.train.reporting import sink_list, weights_and_biases
from hackmatrix.train.reporting.sink_list import Sinks
from hackmatrix.train.reporting.weights_and_biases import WeightsAndBiases
from hackmatrix.train.runs.directory import Run, create, find
from hackmatrix.train.runs.protocol import Unavailable
from tests.train.reporting.pictured_game import TURNS, PicturedGame
from tests.train.reporting.wandb_files import history, only, records

ROOT = Path(__file__).parents[3]
METRICS = {"train/entropy": 2.5, "perf/steps_per_second": 12_000.0}
CARTPOLE = (
    "--config.wandb", "--config.env=gymnax:CartPole-v1", "--config.num_envs=8",
    "--config.num_steps=16", "--config.hidden_dim=16", "--config.lr=1e-3",
    "--config.total_timesteps=2560", "--config.eval_episodes=0", "--config.run_name=mine",
)  # fmt: skip
NOBODY = "http://127.0.0.1:9"  # no server listens there


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Sets wandb offline, with its own files in a directory of the test. It is slow to import, and
    each process of the tests imports this module.
    """
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not installed")
    for name in [each for each in os.environ if each.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home/netrc"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield monkeypatch
    with suppress(ConnectionError):  # if a test has killed its process
        wandb.teardown()


@pytest.fixture
def begun(tmp_path: Path, config: Config) -> Run:
    return create(tmp_path, dataclasses.replace(config, wandb=True, project="games"))


def sessions(run: Run) -> list[list[Any]]:
    """Returns the records of each session, in order."""
    import wandb

    wandb.teardown()  # its own process may still be writing
    files = run.directory.glob("wandb/offline-run-*/*.wandb")
    ordered = sorted((file.parent for file in files), key=lambda each: each.stat().st_ctime)
    return [records(directory) for directory in ordered]


def save(run: Run, step: int) -> None:
    """Writes files as a checkpoint of that step would."""
    (run.directory / "checkpoints" / f"{step}/state").mkdir(parents=True)
    (run.directory / "checkpoints" / f"{step}/state/array").write_text(f"saved at {step}")


def test_a_run_has_a_page_with_its_name_its_settings_and_its_metrics(begun: Run) -> None:
    with closing(Sinks(WeightsAndBiases(begun))) as sinks:
        sinks.write(4096, METRICS | {"train/mean_episode_return": math.nan})
        sinks.write(8192, {"train/entropy": 2.25})
    (found,) = sessions(begun)
    page = only(found, "run")
    assert (page.display_name, page.project) == (begun.name, "games")
    assert history(found) == [(4096, METRICS), (8192, {"train/entropy": 2.25})]
    shown = {each.key: json.loads(each.value_json) for each in page.config.update}
    expected = begun.config.settings()
    assert {name: shown[name] for name in expected} == expected
    assert shown["provenance"]["devices"]["platform"] == "cpu"


def test_a_game_is_a_film_on_the_page(begun: Run) -> None:
    game = PicturedGame()
    with closing(Sinks(WeightsAndBiases(begun))) as sinks:
        sinks.write(4096, METRICS)
        sinks.show_game(2048, game)  # played while training went on
        sinks.write(8192, METRICS)
    (found,) = sessions(begun)
    (_, first), (step, film), (_, last) = history(found)
    assert first == last == METRICS
    assert step == 4097
    assert film["game.caption"] == "step 2,048, return 7.50"
    (file,) = begun.directory.rglob(film["game.path"])
    with Image.open(file) as image:
        assert (image.format, image.n_frames) == ("GIF", TURNS)  # type: ignore[attr-defined]


def test_a_resumed_run_continues_the_same_page(begun: Run) -> None:
    for step in (1, 2):
        with closing(Sinks(WeightsAndBiases(begun))) as sinks:
            sinks.write(step, METRICS)
    first, second = sessions(begun)
    assert only(first, "run").run_id == only(second, "run").run_id
    assert only(second, "run").resume
    assert history(second) == [(2, METRICS)]


def test_runs_of_one_name_have_pages_of_their_own(tmp_path: Path, config: Config) -> None:
    pages = []
    for machine in ("one", "other"):
        begun = create(tmp_path / machine, dataclasses.replace(config, run_name="mine"))
        with closing(Sinks(WeightsAndBiases(begun))) as sinks:
            sinks.write(1, METRICS)
        pages.append(only(sessions(begun)[0], "run").run_id)
    assert pages[0] != pages[1]


def test_rewinding_a_run_rewinds_its_page(begun: Run) -> None:
    for rewind_to, step in ((None, 1), (None, 2), (1, 2)):
        with closing(Sinks(WeightsAndBiases(begun, rewind_to))) as sinks:
            sinks.write(step, METRICS)
    first, _, last = sessions(begun)
    page = only(last, "run")
    assert page.run_id == page.branch_point.run == only(first, "run").run_id
    assert (page.branch_point.metric, page.branch_point.value) == ("_step", 1)


def test_a_run_that_had_no_page_gets_one_when_it_is_rewound(begun: Run) -> None:
    with closing(Sinks(WeightsAndBiases(begun, rewind_to=1))) as sinks:
        sinks.write(2, METRICS)
    (found,) = sessions(begun)
    assert history(found) == [(2, METRICS)]
    assert not only(found, "run").HasField("branch_point")


def test_an_unavailable_bucket_does_not_end_the_page(
    begun: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(_: object) -> list[int]:
        raise Unavailable("gs://bucket/runs/run/checkpoints: Server disconnected")

    monkeypatch.setattr(weights_and_biases.shelf, "steps", unavailable)
    monkeypatch.setattr(weights_and_biases, "_OFFLINE", ())
    messages: list[str] = []
    with closing(Sinks(WeightsAndBiases(begun, say=messages.append), say=messages.append)) as sinks:
        for step in (1, 2):
            sinks.write(step, METRICS)
    (where,) = messages
    assert where.startswith("Weights & Biases: ")
    (found,) = sessions(begun)
    assert sum(each.WhichOneof("record_type") == "history" for each in found) == 2


def test_a_checkpoint_is_uploaded_when_the_run_is_a_tenth_longer_and_the_last_at_the_end(
    begun: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_and_biases, "_LOOKS_EVERY", 0)
    monkeypatch.setattr(weights_and_biases, "_OFFLINE", ())  # what it would send lies in its files
    with closing(Sinks(WeightsAndBiases(begun))) as sinks:
        sinks.write(1, METRICS)
        (begun.directory / "checkpoints/99.orbax-checkpoint-tmp").mkdir(parents=True)
        for step in (10, 11, 12, 13):
            save(begun, step)
            sinks.write(step, METRICS)
            sinks.write(step, METRICS)
    (found,) = sessions(begun)
    uploaded = [each.artifact for each in found if each.WhichOneof("record_type") == "artifact"]
    for artifact, step in zip(uploaded, (10, 12, 13), strict=True):
        assert set(artifact.aliases) == {"latest", f"step-{step}"}
        (content,) = artifact.manifest.contents
        assert content.path == "state/array"
        assert content.skip_cache
        assert Path(content.local_path).read_text() == f"saved at {step}"
        assert (artifact.type, artifact.name) == ("checkpoint", f"{begun.name}-checkpoint")


@pytest.mark.parametrize("offline", [(), ("offline",)])
def test_checkpoints_are_not_uploaded_if_disabled_or_offline_where_copies_would_pile_up(
    begun: Run, monkeypatch: pytest.MonkeyPatch, offline: tuple[str, ...]
) -> None:
    monkeypatch.setattr(weights_and_biases, "_OFFLINE", offline)
    config = dataclasses.replace(begun.config, no_artifact=not offline)
    run = dataclasses.replace(begun, config=config)
    save(run, 1)
    with closing(Sinks(WeightsAndBiases(run))) as sinks:
        sinks.write(1, METRICS)
    (found,) = sessions(run)
    assert "artifact" not in {each.WhichOneof("record_type") for each in found}


def test_the_address_of_the_page_is_reported_and_nothing_else(
    begun: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    messages: list[str] = []
    save(begun, 1)
    with closing(Sinks(WeightsAndBiases(begun, say=messages.append))) as sinks:
        sinks.write(1, METRICS)
        sinks.write(2, METRICS)
    (place,) = begun.directory.glob("wandb/offline-run-*")
    assert messages == [
        f"Weights & Biases: offline; `wandb sync {place}` uploads all but checkpoints"
    ]
    assert capfd.readouterr() == ("", "")


def test_a_run_continues_if_no_server_answers_and_has_its_page_later(
    begun: Run, environment: pytest.MonkeyPatch
) -> None:
    environment.setattr(sink_list, "_TRIED_EVERY", 0)
    environment.setattr(weights_and_biases, "_INIT_SECONDS", 1)
    environment.setenv("WANDB_MODE", "online")
    environment.setenv("WANDB_BASE_URL", NOBODY)
    environment.setenv("WANDB_API_KEY", "0" * 40)
    weights_and_biases.check()
    messages: list[str] = []
    with closing(Sinks(WeightsAndBiases(begun), say=messages.append)) as sinks:
        sinks.write(1, METRICS)
        environment.setenv("WANDB_MODE", "offline")
        sinks.write(2, METRICS)
    failed, works = messages
    assert failed.startswith("WeightsAndBiases failed; the run goes on, and retries it ")
    assert len(failed.splitlines()) == 1
    assert works == "WeightsAndBiases works again"
    (found,) = sessions(begun)
    assert history(found) == [(1, METRICS), (2, METRICS)]


def test_a_run_continues_if_wandb_itself_dies_and_has_its_page_later(
    begun: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_list, "_TRIED_EVERY", 0)
    messages: list[str] = []
    before = children()
    with closing(Sinks(WeightsAndBiases(begun), say=messages.append)) as sinks:
        sinks.write(1, METRICS)
        for process in children() - before:
            os.kill(process, 9)
        step = 1
        while len(messages) < 2 and step < 500:
            step += 1
            sinks.write(step, METRICS)
            time.sleep(0.1)
    assert [line.split()[1] for line in messages] == ["failed;", "works"]
    assert history(sessions(begun)[-1])[-1] == (step, METRICS)


def children() -> set[int]:
    """Returns the child processes of this one that still run."""
    return {
        int(number)
        for thread in Path("/proc/self/task").iterdir()
        for number in (thread / "children").read_text().split()
    }


def test_a_missing_wandb_is_reported_before_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_and_biases, "version", lambda _: None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[wandb\]'") as raised:
        weights_and_biases.check()
    assert len(str(raised.value).splitlines()) == 1


def test_a_missing_login_is_reported_before_a_run_begins(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("WANDB_MODE", "online")
    with pytest.raises(UserError, match=r"wandb login.*WANDB_API_KEY.*WANDB_MODE") as raised:
        weights_and_biases.check()
    assert len(str(raised.value).splitlines()) == 1


def test_launch_train_with_the_wandb_setting_has_a_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launch.train", f"--workdir={tmp_path}", *CARTPOLE],
        cwd=ROOT,
        text=True,
        timeout=300,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "wandb: " not in done.stdout + done.stderr
    mine = find(tmp_path, "mine")
    assert mine
    (found,) = sessions(mine)
    assert [step for step, _ in history(found)] == [1280, 2560]
    lines = [json.loads(line) for line in mine.metrics.read_text().splitlines()]
    for (_, metrics), line in zip(history(found), lines, strict=True):
        assert metrics == {name: line[name] for name in line if name not in ("step", "time")}
