"""Runs as users start them: the real program in its own process, with signals and mistakes.

CartPole stands in for the game, because it compiles in seconds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import xla_flags

ROOT = Path(__file__).parents[2]
UPDATES = 100
BATCH = 8 * 16
SMALL = [
    "--config.env=gymnax:CartPole-v1", "--config.num_envs=8", "--config.num_steps=16",
    "--config.hidden_dim=16", f"--config.total_timesteps={UPDATES * BATCH}",
    "--config.log_interval=20", "--config.eval_episodes=8", "--config.lr=1e-3",
]  # fmt: skip
NO_GAMES = "--config.eval_episodes=0"
OF_ANOTHER_RUN = "def get_config():\n    return {'hidden_dim': 24, 'lr': 0.1}\n"


def command(workdir: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "launch.train", f"--workdir={workdir}", *arguments]


def environment(devices: int = 1) -> dict[str, str]:
    return {**os.environ, "XLA_FLAGS": xla_flags(devices), "COLUMNS": "100"}


def launch(workdir: Path, *arguments: str, devices: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(workdir, *arguments),
        cwd=ROOT,
        env=environment(devices),
        text=True,
        timeout=120,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def run_in(workdir: Path) -> Path:
    (run,) = (path for path in workdir.iterdir() if path.is_dir())
    return run


def lines(run: Path) -> list[dict[str, float]]:
    """Returns the metrics of each chunk without the times, which are never the same."""
    chunks = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in chunk.items() if not re.match(r"perf/|time", name)}
        for chunk in chunks
    ]


def digests(run: Path, step: int) -> Any:
    """Returns the digests of all leaves in a checkpoint: states with equal ones are equal."""
    return json.loads((run / f"checkpoints/{step}/record/metadata").read_text())["digests"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that was never stopped, and what it printed."""
    workdir = tmp_path_factory.mktemp("whole")
    done = launch(workdir, *SMALL)
    assert done.returncode == 0, done.stdout
    return run_in(workdir), done.stdout


@pytest.fixture
def signalled(tmp_path: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Starts a run and sends it a signal once its output has so many matches of `pattern`, by
    default after two chunks. Returns its exit code and its output. Unless `cached`, the run
    compiles all its programs.
    """
    processes: list[subprocess.Popen[str]] = []

    def start(
        number: signal.Signals,
        *arguments: str,
        pattern: str = r"\d%  ",
        times: int = 2,
        cached: bool = True,
    ) -> tuple[int, str]:
        cache = {} if cached else {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
        process = subprocess.Popen(
            command(tmp_path / "runs", *SMALL, "--config.total_timesteps=100_000_000", *arguments),
            cwd=ROOT,
            text=True,
            env=environment() | cache,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        processes.append(process)
        assert process.stdout is not None
        output = ""
        while len(re.findall(pattern, output)) < times:
            line = process.stdout.readline()
            assert line, output
            output += line
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
        return process.returncode, output + rest

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_run_prints_its_settings_its_progress_and_its_results(
    whole: tuple[Path, str],
) -> None:
    run, printed = whole
    assert "8 of gymnax:CartPole-v1" in printed
    assert "4 of 32, 4 epochs: 16 gradient steps" in printed
    assert "lr = 0.001 (default: 0.00025)" in printed
    assert "100%" in printed
    assert f"Done at step {UPDATES * BATCH:,}" in printed
    assert str(run) in printed
    assert "tensorboard --logdir" in printed
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["agent"]["train/mean_episode_return"]["mean"] > 1
    assert len(lines(run)) == UPDATES // 20
    assert 0 <= lines(run)[-1]["train/cut_off"] <= 1
    assert any((run / "tensorboard").iterdir())
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance[0]["versions"]["jax"]


def test_a_resumed_run_equals_one_that_was_never_stopped_and_ignores_a_file_of_another_run(
    signalled: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (other := tmp_path / "other.py").write_text(OF_ANOTHER_RUN)
    code, printed = signalled(signal.SIGINT)
    assert code == 42, printed
    assert "SIGINT: saving" in printed
    assert re.search(r"Saved and stopped \d+\.\d s after the signal", printed)
    run = run_in(tmp_path / "runs")
    (stopped,) = (int(path.name) for path in (run / "checkpoints").iterdir())
    assert stopped % (20 * BATCH) == 0
    assert stopped >= 2 * 20 * BATCH
    end = stopped + 40 * BATCH
    ends = f"--config.total_timesteps={end}", NO_GAMES
    done = launch(tmp_path / "runs", "--resume=auto", f"--config={other}", *ends)
    assert done.returncode == 0, done.stdout
    assert "describes another run (hidden_dim=24)" in done.stdout
    assert f"Resuming from the checkpoint at step {stopped:,}" in done.stdout
    steps = [line["step"] for line in lines(run)]
    assert steps == sorted(set(steps))
    assert steps[-1] == end

    uninterrupted = tmp_path / "undisturbed"
    again = launch(uninterrupted, *SMALL, *ends)
    assert again.returncode == 0, again.stdout
    assert digests(run_in(uninterrupted), end) == digests(run, end)
    assert lines(run_in(uninterrupted)) == lines(run)


@pytest.mark.parametrize(
    ("number", "doing"),
    [(signal.SIGTERM, "loading JAX"), (signal.SIGINT, "Compiling the training program")],
)
def test_a_signal_before_the_first_update_leaves_one_line_and_no_run(
    signalled: Callable[..., tuple[int, str]], tmp_path: Path, number: signal.Signals, doing: str
) -> None:
    code, printed = signalled(number, pattern=doing, times=1, cached=False)
    assert code == 42, printed
    *_, before, last = printed.splitlines()
    assert doing in before
    assert last == "Stopped before the first update; nothing to save"
    assert not [*(tmp_path / "runs").glob("*")]


def test_a_signal_in_the_final_evaluation_stops_it_at_once_and_the_checkpoint_stays(
    signalled: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    last_step = 20 * BATCH
    games = f"--config.total_timesteps={last_step}", "--config.eval_episodes=1_000_000"
    code, printed = signalled(signal.SIGINT, *games, pattern="Evaluation: playing", times=1)
    assert code == 42, printed
    last = printed.splitlines()[-1]
    assert last == "Stopped before the final evaluation; all is saved, and --resume plays it"
    run = run_in(tmp_path / "runs")
    assert [each.name for each in (run / "checkpoints").iterdir()] == [str(last_step)]
    assert not (run / "evaluation.json").exists()


LONGER = f"""
from configs import default

def get_config():
    config = default.get_config()
    config.total_timesteps = {40 * BATCH}
    return config
"""


def test_a_checkpoint_of_8_devices_resumes_on_1_with_the_settings_of_a_new_file(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    begun = *SMALL, f"--config.total_timesteps={20 * BATCH}", NO_GAMES
    first = launch(tmp_path, *begun, devices=8)
    assert first.returncode == 0, first.stdout
    longer = tmp_path / "longer.py"
    longer.write_text(LONGER)
    second = launch(tmp_path, "--resume=auto", f"--config={longer}", "--profile=1:1")
    assert second.returncode == 0, second.stdout
    assert "1 x cpu" in second.stdout
    begins = second.stdout.partition("Compiling the training program")[0]
    assert "warning: no trace will be recorded: update 1," in begins
    alone, metrics = lines(whole[0])[:2], lines(run_in(tmp_path))
    for one, other in zip(alone, metrics, strict=True):
        assert one == pytest.approx(other, abs=1e-3)


def test_a_broken_run_stops_and_prints_what_to_do(whole: tuple[Path, str], tmp_path: Path) -> None:
    run = shutil.copytree(whole[0], tmp_path / whole[0].name)
    end = f"--config.total_timesteps={(UPDATES + 70) * BATCH}"
    done = launch(tmp_path, "--resume=auto", "--config.lr=1e38", end, NO_GAMES)
    assert done.returncode == 1, done.stdout
    error = done.stdout.splitlines()[-1]
    assert re.search(rf"update {UPDATES // 10}\d is broken: .*not finite", error), error
    assert f"step {UPDATES * BATCH:,}" in error
    assert "resume with a lower --config.lr, or with --config.skip_nonfinite=True" in error
    assert [path.name for path in (run / "checkpoints").iterdir()] == [str(UPDATES * BATCH)]


def test_a_network_too_wide_for_the_memory_is_reported_in_one_line(tmp_path: Path) -> None:
    done = launch(tmp_path, NO_GAMES, "--config.hidden_dim=30000000")
    assert done.returncode == 1
    assert "a network of 30000000 features do not fit in memory" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]


def test_two_mistakes_are_two_lines_and_no_traceback(tmp_path: Path) -> None:
    done = launch(tmp_path, "--config.lr=-1", "--config.gamma=2")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    starts = sorted(line.rpartition(" must")[0] for line in done.stdout.splitlines()[-2:])
    assert starts == ["launch.train: gamma=2.0", "launch.train: lr=-1.0"]
