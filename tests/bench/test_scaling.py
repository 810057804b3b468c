"""The scaling benchmark, on a small environment: that it reports what it measured, and how."""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import pytest

from configs import default
from hackmatrix.bench import measuring
from hackmatrix.bench.report import Report
from hackmatrix.bench.scaling import curves, subprocesses
from hackmatrix.bench.scaling import report as scaling_report
from hackmatrix.bench.timing import REPEATS
from hackmatrix.errors import UserError
from tests.compiling import COMPILE_FAST
from tests.train.reporting.event_files import events

pytest.importorskip("libtpu", reason="libtpu, which compiles for TPUs, is not installed")

ROOT = Path(__file__).parents[2]
ENVS, STEPS = 4, 8
SMALL = (
    "--config.env=tests.doors.outside.toy_environment:Corridor", "--config.hidden_dim=8",
    "--config.num_layers=1", f"--config.num_steps={STEPS}", f"--envs={ENVS}", "--seconds=0",
)  # fmt: skip
COMPILES_FAST = "--config.algorithm=tests.doors.outside.reinforce:Reinforce"  # unlike PPO
BUSY = """
import os, signal, time
signal.raise_signal(signal.SIGINT)  # only the parent heeds Ctrl-C
print(os.getpid(), flush=True)
time.sleep(600)
"""
POINT = curves.Point("weak", curves.MEASURED, 1, 1, 4, 32, 1.5, 3, 9.0, 9.0, 1.0, 0.1, 0.2)
Row = dict[str, str]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scaling")


@pytest.fixture(scope="module")
def printed(directory: Path) -> list[str]:
    """What the command prints for one and two processes, and a slice that is not present."""
    pytest.importorskip("matplotlib", reason="matplotlib, which draws the plot, is not installed")
    given = COMPILES_FAST, f"--out={directory}", "--processes=2,1", "--slices=v4-8"
    done = subprocess.run(
        [sys.executable, "-m", "launch.bench", "scaling", *SMALL, *given],
        cwd=ROOT,
        # With the real matplotlib, not with what stands in for it in other tests.
        env={**os.environ, "XLA_FLAGS": COMPILE_FAST, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert str(directory / "scaling.png") in done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def rows(printed: list[str], directory: Path) -> list[Row]:
    with (directory / "scaling.csv").open() as file:
        return list(csv.DictReader(file))


def test_weak_scaling_adds_environments_and_strong_scaling_does_not(rows: list[Row]) -> None:
    names = ("kind", "devices", "hosts", "envs_a_device", "batch", "source")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("weak", "1", "1", "4", "32", "measured"),
        ("weak", "2", "2", "4", "64", "simulated"),
        ("strong", "1", "1", "4", "32", "measured"),
        ("strong", "2", "2", "2", "32", "simulated"),
        ("weak", "4", "1", "4", "128", "compiled"),
    ]


def test_speeds_are_of_several_repeats_and_relative_to_the_first_point(rows: list[Row]) -> None:
    for first, row in ((rows[0], rows[1]), (rows[2], rows[3]), (rows[0], rows[0])):
        speed, per_device = float(row["steps_per_second"]), float(row["steps_per_second_a_device"])
        assert int(row["repeats"]) >= REPEATS
        assert 0 < float(row["step_p50"]) <= float(row["step_p95"])
        assert speed == pytest.approx(float(row["batch"]) / float(row["step_p50"]))
        assert per_device == pytest.approx(speed / int(row["devices"]))
        baseline = float(first["steps_per_second_a_device"])
        assert float(row["efficiency"]) == pytest.approx(per_device / baseline)


def test_a_slice_that_is_only_compiled_for_has_no_speed(rows: list[Row]) -> None:
    assert float(rows[-1]["compile_seconds"]) > 0
    for name in ("steps_per_second", "steps_per_second_a_device", "efficiency", "step_p50"):
        assert rows[-1][name] == ""


def test_the_table_has_a_line_per_row_and_states_revision_and_command(
    printed: list[str], rows: list[Row]
) -> None:
    origin, heading, *lines = printed
    assert rows[0]["revision"] in origin
    assert "--processes=2,1" in origin
    assert len(heading.split("  ")) >= 13
    assert [line.split()[-1] for line in lines] == [row["source"] for row in rows]
    assert all(row["revision"] and "--processes=2,1" in row["command"] for row in rows)


def test_a_plot_is_written_and_the_events_hold_the_rows(rows: list[Row], directory: Path) -> None:
    assert (directory / "scaling.png").read_bytes().startswith(b"\x89PNG")
    (curves,) = (directory / "tensorboard").iterdir()
    found = {each.name: scalars(each) for each in curves.iterdir()}
    assert found.keys() == {"weak", "strong", "compiled"}
    for name, own in (("weak", rows[:2]), ("strong", rows[2:4]), ("compiled", rows[4:])):
        for speed in ("steps_per_second", "compile_seconds"):
            expected = {int(row["devices"]): float(row[speed]) for row in own if row[speed]}
            assert found[name].get(f"scaling/{speed}", {}) == pytest.approx(expected)
        assert "made_with/text_summary" in found[name]


def scalars(directory: Path) -> dict[str, dict[int, float]]:
    """Returns the scalars in event files by tag and step."""
    found: dict[str, dict[int, float]] = {}
    for event in events(directory):
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_a_process_has_the_requested_number_of_simulated_devices() -> None:
    assert subprocesses.run_in_group(1, 3, jax.device_count) == 3


@pytest.fixture
def other() -> Iterator[BaseProcess]:
    """A process that the benchmark has not started."""
    process = get_context("spawn").Process(target=time.sleep, args=(600,))
    process.start()
    yield process
    process.kill()
    process.join()


def test_a_failing_process_ends_those_that_would_wait_for_it_but_no_foreign_one(
    other: BaseProcess,
) -> None:
    works: list[partial[Any]] = [partial(time.sleep, 600), partial(int, "x")]
    with pytest.raises(ValueError, match="invalid literal"):
        subprocesses.run_all(works)
    assert other.is_alive()


def test_a_killed_process_is_reported_in_one_line() -> None:
    with pytest.raises(UserError, match="was killed"):
        subprocesses.run_all([os.abort])


@pytest.mark.parametrize(
    ("kill", "sent", "tracebacks"),
    [(os.kill, signal.SIGKILL, 0), (os.killpg, signal.SIGINT, 1)],
    ids=["killed", "interrupted by Ctrl-C, which all get"],
)
def test_processes_end_with_the_one_that_started_them(
    kill: Callable[[int, int], None], sent: int, tracebacks: int
) -> None:
    program = f"""
from functools import partial
from hackmatrix.bench.scaling import subprocesses
subprocesses.run_all([partial(exec, {BUSY!r})])
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        busy = int(parent.stdout.readline())
        try:
            kill(parent.pid, sent)
            _, errors = parent.communicate(timeout=20)  # until no process has the pipe open
        except subprocess.TimeoutExpired:
            os.kill(busy, signal.SIGKILL)
            raise
    assert errors.count("Traceback") == tracebacks


def test_a_machine_without_the_requested_devices_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jax, "devices", Mock(side_effect=AssertionError))
    with pytest.raises(UserError, match="JAX finds no such device here"):
        curves._machine()


@pytest.fixture
def one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes this machine for one CPU, instead of starting a process that finds out."""
    monkeypatch.setattr(curves, "machine", lambda: curves.Machine("cpu", 1, 1, is_first=True))


@pytest.mark.usefixtures("one_cpu")
def test_points_measured_before_a_failure_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Iterator[curves.Point]:
        yield POINT
        raise UserError("a benchmark process was killed")

    monkeypatch.setattr(curves, "curves", failing)
    (tmp_path / "scaling.csv").write_text("of an earlier one")
    raw, report = default.get_config(), Report(as_json=True)
    with pytest.raises(UserError, match="was killed"):
        measuring.measure_scaling(raw, [1], [], 64, 0, tmp_path, report)
    assert (tmp_path / "scaling.csv").read_text().splitlines()[1].startswith("weak,measured,1,1,4")
    assert [file.read_text() for file in tmp_path.glob("scaling-*.csv")] == ["of an earlier one"]


def test_curves_are_written_even_if_the_table_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "scaling.csv").mkdir()
    written = scaling_report.write([POINT], {"revision": "it"}, tmp_path)
    assert next(written).startswith("tensorboard --logdir ")
    with pytest.raises(UserError, match=r"scaling\.csv: Is a directory"):
        list(written)
    assert list(tmp_path.glob("tensorboard/*/*/events*"))


def test_a_cpu_has_as_many_devices_as_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7})
    assert curves.sizes(curves.Machine("cpu", 1, 1, is_first=True)) == [1, 2]


def test_more_processes_than_gpus_are_refused() -> None:
    with pytest.raises(UserError, match="--processes=2: each process needs a device of its own"):
        curves.check({}, curves.Machine("gpu", 1, 1, is_first=True), [1, 2], [], envs=64)


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.parametrize(
    ("processes", "given", "out", "reason"),
    [
        (1, {"lr": -1.0}, "scaling", r"^lr=-1\.0 must be"),
        (1, {"num_minibatches": 0}, "scaling", "^num_minibatches=0 must be"),
        (1, {"resume": "a"}, "scaling", "^resume='a': no run is resumed here"),
        (1, {}, "/dev/null", "^--out=/dev/null: File exists$"),
        (3, {}, "scaling", "^num_envs=4 forms 4 groups, which 3 devices cannot share equally"),
    ],
)
def test_what_would_fail_later_is_refused_before_anything_is_measured(
    processes: int, given: dict[str, object], out: str, reason: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(curves, "curves", measured := Mock(return_value=iter(())))
    raw = {**default.get_config(), **given}
    with pytest.raises(UserError, match=reason):
        measuring.measure_scaling(
            raw, [processes], [], ENVS, 0, tmp_path / out, Report(as_json=True)
        )
    measured.assert_not_called()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("--out=", "flag --out=: must not be empty"),
        ("--processes=0", "must be numbers from 1, like 1,2,4"),
        ("--slices=v4-9", "must be names among v4-8"),
        ("--config.num_envs=8", "use --envs, not --config.num_envs"),
        ("--boards=256", "--boards applies to env, not to scaling"),
        ("--out=gs://bucket/scaling", "gs://bucket/scaling is not a local path: write to"),
        ("--seconds=nan", "flag --seconds=nan: must be a number"),
    ],
)
def test_what_cannot_be_measured_is_reported_in_one_line(
    argument: str, reason: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launch.bench", "scaling", *SMALL, argument],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    *before, line = done.stderr.splitlines()
    assert reason in line
    assert all("loading JAX" in each or "measuring scaling" in each for each in before)
    assert list(tmp_path.iterdir()) == []
