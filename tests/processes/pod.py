"""Runs several trainers on this machine that train as one, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.compiling import COMPILE_REPRODUCIBLY, xla_flags
from tests.train.pair import free_port

ROOT = Path(__file__).parents[2]
SECONDS = 240  # for any wait; the machine may be busy
UPDATES, BATCH = 60, 16 * 8
LAST_STEP = UPDATES * BATCH
# CartPole stands in for the game, because it compiles in seconds.
SMALL = (
    "--config.env=gymnax:CartPole-v1", "--config.num_envs=16", "--config.num_steps=8",
    "--config.num_minibatches=2", "--config.update_epochs=2", "--config.lr=1e-3",
    "--config.hidden_dim=16", "--config.num_layers=1", f"--config.total_timesteps={LAST_STEP}",
    "--config.log_interval=1", "--config.save_interval=30", "--config.keep_checkpoints=9",
    "--config.eval_episodes=8", "--config.replica_check_interval=20", "--config.run_name=run",
)  # fmt: skip
# Gloo prints its connections from several threads at once, so the lines may be mixed up.
GLOO = re.compile(
    r"\[Gloo\] Rank | is connected to | peer ranks\. |Expected number of connected peer ranks is : "
)
NO_GAMES = "--config.eval_episodes=0"


class Pod:
    """Processes that share `devices` devices, and run from the start to the end of the block.

    `only` holds more arguments for single processes; `program` is the command of each.
    """

    def __init__(
        self,
        workdir: Path,
        processes: int,
        *arguments: str,
        devices: int,
        only: Mapping[int, Sequence[str]] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "launch.train"),
    ) -> None:
        self.workdir, self.run = workdir, workdir / "run"
        workdir.mkdir(parents=True, exist_ok=True)
        place = f"--coordinator=127.0.0.1:{free_port()}", f"--num_processes={processes}"
        self._commands = [
            [
                *program,
                f"--workdir={workdir}",
                *SMALL,
                "--heartbeat_seconds=5",
                *([*place, f"--process_id={each}"] if processes > 1 else []),
                *arguments,
                *(only or {}).get(each, ()),
            ]
            for each in range(processes)
        ]
        flags = xla_flags(devices // processes, COMPILE_REPRODUCIBLY)
        self._environment = {**os.environ, "XLA_FLAGS": flags, "PYTHON": sys.executable}
        self._environment |= {"SUPERVISE_PAUSE": "0", "PYTHONUNBUFFERED": "1"}
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        for number, command in enumerate(self._commands):
            with self._log(number).open("w") as log:
                self.processes.append(
                    subprocess.Popen(
                        command,
                        cwd=ROOT,
                        env=self._environment,
                        text=True,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.processes:
            for child in children(each.pid):
                os.kill(child, signal.SIGKILL)
            each.kill()
            each.wait()

    def wait(self, number: int) -> int:
        """Waits until a process ends; returns its exit code."""
        try:
            return self.processes[number].wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {number} still runs: {self.output(number)}") from None

    def exit_codes(self) -> list[int]:
        return [self.wait(number) for number in range(len(self.processes))]

    def output(self, number: int) -> str:
        """Returns what a process has printed, without the lines of Gloo."""
        lines = GLOO.sub("", self._log(number).read_text()).splitlines()
        return "\n".join(line for line in lines if line and not line.isdecimal())

    def wait_for_chunks(self) -> None:
        """Waits until some chunks are done."""
        metrics = self.run / "metrics.jsonl"

        def some_are_done() -> bool:
            for number, process in enumerate(self.processes):
                assert process.poll() is None, f"process {number} has ended: {self.output(number)}"
            return metrics.exists() and len(metrics.read_text().splitlines()) > 2

        wait_until(some_are_done)

    def steps(self) -> list[int]:
        """Returns the steps of the checkpoints that exist."""
        names = [each.name for each in (self.run / "checkpoints").iterdir()]
        return sorted(int(name) for name in names if name.isdecimal())

    def digests(self, step: int = LAST_STEP) -> Any:
        """Returns the digest of each leaf of a checkpoint; equal digests mean equal states."""
        record = self.run / f"checkpoints/{step}/record/metadata"
        return json.loads(record.read_text())["digests"]

    def _log(self, number: int) -> Path:
        return self.workdir / f"said-by-{number}"


def children(process: int) -> list[int]:
    """Returns the children of a process; none if it has ended."""
    with suppress(OSError):
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    return []


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "the condition has not come true"
        time.sleep(0.02)
