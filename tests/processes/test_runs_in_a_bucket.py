"""A run in a bucket is trained, stopped, resumed, evaluated and reported on machines that share
nothing but the bucket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import WHOLE
from tests.bucket_service import BUCKET, Service
from tests.compiling import COMPILE_REPRODUCIBLY, xla_flags
from tests.processes.pod import BATCH, SMALL, free_port
from tests.processes.states import assert_same_run, state_of

ROOT = Path(__file__).parents[2]
LAST_STEP = 20 * BATCH
TRAIN = (
    *SMALL, f"--config.total_timesteps={LAST_STEP}", "--config.save_interval=5",
    "--config.eval_episodes=0",
)  # fmt: skip


def train(workdir: str) -> subprocess.CompletedProcess[str]:
    return _program("launch.train", f"--workdir={workdir}", *TRAIN, devices=2)


def _program(name: str, *arguments: str, devices: int = 1) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XLA_FLAGS": xla_flags(devices, COMPILE_REPRODUCIBLY)}
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )


def metrics_of(run: Path) -> list[dict[str, float]]:
    """Returns the metrics of a run without times, which differ in every run."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    untimed = ("time", "perf/", "charts/SPS")
    return [
        {tag: value for tag, value in line.items() if not tag.startswith(untimed)} for line in lines
    ]


def _games(line: dict[str, float]) -> dict[str, float]:
    """Returns the metrics of games, which do not depend on the order of sums."""
    return {tag: value for tag, value in line.items() if "episode" in tag}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run of the same settings on a disk."""
    workdir = tmp_path_factory.mktemp("on-disk")
    assert train(str(workdir)).returncode == 0
    return workdir / "run"


@pytest.fixture(scope="module")
def whole(bucket_service: Service) -> str:
    """The working directory of an undisturbed run in a bucket."""
    done = train(where := f"{BUCKET}/whole")
    assert done.returncode == 0, done.stderr
    assert f"run          {where}/run" in done.stdout
    return where


@pytest.mark.usefixtures("whole")
def test_a_run_in_a_bucket_equals_the_run_on_a_disk_and_has_all_its_files(
    bucket_service: Service, on_disk: Path, tmp_path: Path
) -> None:
    names = bucket_service.names("whole/run/")
    entries = {name.removeprefix("whole/run/").split("/")[0] for name in names}
    assert entries >= {"config.json", "provenance.json", "metrics.jsonl", "tensorboard", "owner"}
    Bucket(f"{BUCKET}/whole/run").fetch_files(tmp_path)
    assert metrics_of(tmp_path) == metrics_of(on_disk)
    record = f"checkpoints/{LAST_STEP}/record/metadata"
    digests = [
        json.loads(text)["digests"]
        for text in ((on_disk / record).read_text(), Bucket(f"{BUCKET}/whole/run/{record}").read())
    ]
    assert digests[0] == digests[1]


def test_evaluate_and_report_read_a_run_from_a_bucket(whole: str, tmp_path: Path) -> None:
    where = f"--workdir={whole}"
    measured = _program("launch.evaluate", where, "--run=auto", "--episodes=8")
    assert measured.returncode == 0, measured.stderr
    first, heading, *_ = measured.stdout.splitlines()
    assert first == f"run at step {LAST_STEP:,}: 8 games of seed 0, 95% intervals"
    assert heading.split() == ["agent", "agent,", "greedy", "random"]
    assert "return" in measured.stdout
    assert "launch.watch" not in measured.stdout  # these games cannot be drawn
    page = tmp_path / "page.html"
    shown = _program("launch.report", f"--run={whole}/run", f"--out={page}")
    assert shown.returncode == 0, shown.stderr
    assert "gymnax:CartPole-v1" in page.read_text()


COMPILES = """
import jax
from hackmatrix.train.runs import bucket
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append("cache_hits" in name))
jax.jit(lambda x: x * 2 + 1)(1.0).block_until_ready()
print(sum(hits))
"""


def test_a_program_compiled_on_one_machine_is_found_by_another_in_the_bucket(
    bucket_service: Service,
) -> None:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": f"{BUCKET}/runs/.compiled",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    found = [
        subprocess.run(
            [sys.executable, "-c", COMPILES],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        )
        for _ in range(2)
    ]
    assert [each.stdout for each in found] == ["0\n", "1\n"]
    assert "bucket type" not in found[0].stderr  # which gcsfs warns that it cannot find out


@pytest.fixture
def machines() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that a test has started; none outlives it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for each in started:
        each.kill()
        each.wait()


def _start_two(where: str, disks: Path, *arguments: str) -> list[subprocess.Popen[bytes]]:
    """Starts two trainers that share no files: each has a temporary folder of its own."""
    port, started = free_port(), []
    for each in range(2):
        (own := disks / str(each)).mkdir(parents=True)
        meeting = (
            f"--coordinator=127.0.0.1:{port}", "--num_processes=2", f"--process_id={each}",
            "--heartbeat_seconds=5",
        )  # fmt: skip
        started.append(_start(where, *meeting, *arguments, devices=1, temporary=own))
    return started


def _start(where: str, *arguments: str, devices: int, temporary: Path) -> subprocess.Popen[bytes]:
    """Starts a trainer that prints to the file `said` in its temporary folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "launch.train", f"--workdir={where}", *TRAIN, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "XLA_FLAGS": xla_flags(devices, COMPILE_REPRODUCIBLY),
            "TMPDIR": str(temporary),
        },
        stdout=(temporary / "said").open("w"),
    )


def _whole_checkpoints(service: Service, run: str) -> int:
    marks = [name for name in service.names(f"{run}/checkpoints/") if name.endswith(WHOLE)]
    return len(marks)


def _wait_for_another_checkpoint(
    process: subprocess.Popen[bytes], service: Service, run: str, before: int
) -> None:
    """Waits until there are more checkpoints than `before`."""
    while _whole_checkpoints(service, run) <= before:
        assert process.poll() is None
        time.sleep(0.02)


def test_a_run_on_two_machines_that_loses_one_resumes_on_one_and_finishes_on_two(
    bucket_service: Service,
    on_disk: Path,
    tmp_path: Path,
    machines: list[subprocess.Popen[bytes]],
) -> None:
    where, run = f"{BUCKET}/moved", "moved/run"
    machines += (both := _start_two(where, tmp_path / "at_first"))
    _wait_for_another_checkpoint(both[0], bucket_service, run, before=0)
    both[1].kill()
    assert both[0].wait(timeout=60) == 42

    saved = _whole_checkpoints(bucket_service, run)
    alone = _start(where, "--resume=run", devices=2, temporary=tmp_path)
    machines.append(alone)
    _wait_for_another_checkpoint(alone, bucket_service, run, before=saved)
    alone.terminate()
    assert alone.wait(timeout=60) == 42

    machines += (again := _start_two(where, tmp_path / "again", "--resume=run"))
    assert [each.wait(timeout=240) for each in again] == [0, 0]
    for said in (tmp_path / "said", tmp_path / "again/0/said"):
        assert "Resuming from the checkpoint at step" in said.read_text()
    ends = [state_of(place, LAST_STEP) for place in (Bucket(f"{where}/run"), Disk(on_disk))]
    assert_same_run(ends[0], ends[1])
    Bucket(f"{where}/run").fetch_files(tmp_path)
    games = [[_games(line) for line in metrics_of(each)] for each in (tmp_path, on_disk)]
    assert games[0] == games[1]
    assert len(games[0]) == 20
