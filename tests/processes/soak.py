"""A soak: a run in a bucket that is disturbed at random must end as if it had not been disturbed.

    python -m tests.processes.soak --minutes=120 --seed=0

First the run is trained undisturbed. Then it is trained once more, and disturbed as soon as each of
its first two starts has saved, and from then on every few seconds: its process is killed, asked to
stop, or suspended, or its bucket refuses requests, fails, or is slow. After the given minutes it is
left alone to finish. The exit code is 0 if the last states are equal bit for bit, the metrics too,
only whole checkpoints are in the bucket, no stop took the 30 s that a spot notice leaves, and the
memory of the trainer did not grow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hackmatrix.exit_codes import RETRY
from hackmatrix.train.checkpoints import shelf
from hackmatrix.train.runs.bucket import Bucket
from tests import bucket_service
from tests.bucket_service import BUCKET, Service
from tests.compiling import COMPILE_REPRODUCIBLY, xla_flags
from tests.processes.pod import BATCH, ROOT, SMALL

# Of both runs together, on two cores that train something else as well.
_UPDATES_A_MINUTE, _UPDATES_A_SAVE = 1200, 50
_LONG = 10 * _UPDATES_A_MINUTE
_EARLY = 2  # starts that are disturbed at once: a fast machine ends a short run within seconds
_MOST_GROWTH, _LEAST_QUARTER = 1.1, 30  # seconds
_MOST_TO_STOP = 30  # seconds: what a spot notice leaves
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Soaked:
    """The results of a soak."""

    starts: int = 0
    disturbances: Counter[str] = field(default_factory=Counter)
    memory: list[list[int]] = field(default_factory=list)  # of each process, once a second
    stops: list[float] = field(default_factory=list)  # seconds from a SIGTERM to the end
    faults: list[str] = field(default_factory=list)

    def growth(self) -> tuple[int, int]:
        """Returns the most memory of the process that lived longest, in the second quarter of its
        life and in the last. Returns zeros if it did not live long: on a busy machine a process
        takes half a minute to start, and grows during that time.
        """
        longest = max(self.memory, key=len)
        if (quarter := len(longest) // 4) < _LEAST_QUARTER:
            return 0, 0
        return max(longest[quarter : 2 * quarter]), max(longest[-quarter:])


class Trainer:
    """The process that trains the run; a new one resumes where the last one ended."""

    def __init__(self, workdir: str, updates: int, log: Path) -> None:
        self._command = [
            sys.executable, "-m", "launch.train", f"--workdir={workdir}", *SMALL,
            f"--config.total_timesteps={updates * BATCH}", "--config.log_interval=10",
            f"--config.save_interval={_UPDATES_A_SAVE}", "--config.eval_episodes=0",
            "--config.keep_checkpoints=3", "--resume=auto",
        ]  # fmt: skip
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**os.environ, "XLA_FLAGS": xla_flags(2, COMPILE_REPRODUCIBLY)},
                stdout=out,
                stderr=out,
            )
        return self.process

    def close(self) -> None:
        """Kills the process if it still runs, as when the soak is interrupted."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def soak(minutes: float, seed: int, directory: Path, say: Callable[[str], None]) -> Soaked:
    """Trains one run twice, the second time disturbed; `faults` has what is wrong at the end."""
    updates = int(minutes * _UPDATES_A_MINUTE) // _UPDATES_A_SAVE * _UPDATES_A_SAVE
    with (
        bucket_service.running() as service,
        bucket_service.used(service),
        closing(Trainer(f"{BUCKET}/calm", updates, directory / "calm.log")) as calm,
        closing(Trainer(f"{BUCKET}/soaked", updates, directory / "soaked.log")) as trainer,
    ):
        start = time.monotonic()
        process, memory = calm.start(), list[int]()
        _lives_for(process, math.inf, memory)
        if code := process.wait():
            raise RuntimeError(f"the undisturbed run ended with {code}: see {directory}/calm.log")
        say(f"{updates:,} updates took {time.monotonic() - start:.0f} s undisturbed")
        soaked = _disturbed(service, trainer, updates > _LONG, minutes, random.Random(seed), say)
        if not soaked.faults:
            soaked.memory.insert(0, memory)
            soaked.faults += _differences(updates)
            before, after = soaked.growth()
            if after > _MOST_GROWTH * before:
                soaked.faults.append("the memory of a trainer grew")
            soaked.faults += [
                f"a stop took {each:.1f} s" for each in soaked.stops if each >= _MOST_TO_STOP
            ]
    return soaked


def _disturbed(
    service: Service,
    trainer: Trainer,
    is_long: bool,
    minutes: float,
    draw: random.Random,
    say: Callable[[str], None],
) -> Soaked:
    soaked = Soaked()
    disturbances = {
        "killed": lambda process: process.kill(),
        "asked to stop": lambda process: soaked.stops.append(_stop(process)),
        "suspended": _suspend,
        "refused by the bucket": lambda process: _spoil(service, "refuse", process),
        "failed by the bucket every third time": lambda process: _spoil(service, "third", process),
        "slowed by the bucket": lambda process: _spoil(service, "slow", process),
    }
    if is_long:
        gone = "left by the bucket for a minute"
        disturbances[gone] = lambda process: _spoil(service, "refuse", process, seconds=60)
    # Each of them in turn, in a new order every round; the first start is killed in any case.
    orders = (draw.sample(sorted(disturbances), len(disturbances)) for _ in itertools.count())
    turns = itertools.chain(["killed"], itertools.chain.from_iterable(orders))
    end = math.inf
    while True:
        process = trainer.start()
        soaked.starts += 1
        soaked.memory.append([])
        if is_early := soaked.starts <= _EARLY:
            saved = _newest_step()
            while _newest_step() == saved and _lives_for(process, 1, []):
                pass
        if soaked.starts == 1:
            end = time.monotonic() + 60 * minutes
        calm = 0.0 if is_early else _calm_seconds(end, draw)
        while _lives_for(process, calm, soaked.memory[-1]):
            what = next(turns)
            soaked.disturbances[what] += 1
            say(f"start {soaked.starts}: {what}")
            disturbances[what](process)
            calm = _calm_seconds(end, draw)
        code = process.wait()
        if code == 0:
            return soaked
        if code not in (RETRY, -signal.SIGKILL):
            last = trainer.log.read_text(errors="replace").splitlines()[-5:]
            soaked.faults.append("\n".join([f"start {soaked.starts} ended with {code}:", *last]))
            return soaked


def _newest_step() -> int:
    return max(shelf.steps(Bucket(f"{BUCKET}/soaked/run/checkpoints")), default=0)


def _calm_seconds(end: float, draw: random.Random) -> float:
    """Returns the time until the next disturbance; there are none after the end."""
    return draw.uniform(4, 14) if time.monotonic() < end else math.inf


def _lives_for(process: subprocess.Popen[bytes], seconds: float, memory: list[int]) -> bool:
    """Whether the process still runs after that time; records its memory meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            return False
        memory.append(_memory(process.pid))
        time.sleep(1)
    return process.poll() is None


def _memory(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _suspend(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    process.send_signal(signal.SIGCONT)


def _stop(process: subprocess.Popen[bytes]) -> float:
    """Asks the process to stop; returns how long that took. It may also still run."""
    process.terminate()
    start = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_MOST_TO_STOP)
    return time.monotonic() - start


def _spoil(
    service: Service, fault: str, process: subprocess.Popen[bytes], seconds: float = 10
) -> None:
    with service.failing(fault):
        _lives_for(process, seconds, [])


def _differences(updates: int) -> list[str]:
    """Returns how the disturbed run differs from the calm one, and what it should have removed."""
    calm, soaked = (Bucket(f"{BUCKET}/{name}/run") for name in ("calm", "soaked"))
    record = f"checkpoints/{updates * BATCH}/record/metadata"
    digests = [json.loads((run / record).read())["digests"] for run in (calm, soaked)]
    wrong = [] if digests[0] == digests[1] else ["the last states differ"]
    left = [
        name
        for name in (soaked / "checkpoints").names()
        if not name.isdecimal() and not name.startswith(".")
    ]
    if left or shelf.unfinished(soaked / "checkpoints"):
        wrong.append(f"what is no whole checkpoint is left behind: {left}")
    expected, found = _metrics(calm), _metrics(soaked)
    if expected != found:
        pairs = itertools.zip_longest(expected, found)
        first = next(pair for pair in pairs if pair[0] != pair[1])
        wrong.append(f"the metrics differ, first in {first[0]}, which is {first[1]}")
    return wrong


def _metrics(run: Bucket) -> list[dict[str, float]]:
    """Returns each step once, in order, with the metrics of its games. (Evaluations go by the
    clock, so they come after other steps in each run.)
    """
    lines = map(json.loads, (run / "metrics.jsonl").read().splitlines())
    return [
        {tag: value for tag, value in line.items() if tag == "step" or _is_of_games(tag)}
        for line in lines
    ]


def _is_of_games(tag: str) -> bool:
    return "episode" in tag and not tag.startswith("eval/")


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--minutes", type=float, default=120.0, help="of disturbances, at most")
    flags.add_argument("--seed", type=int, default=0, help="of the disturbances")
    flags.add_argument("--directory", type=Path, default=Path("runs/soak"), help="for the logs")
    given = flags.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    soaked = soak(given.minutes, given.seed, given.directory, lambda line: print(line, flush=True))
    print(f"{soaked.starts} starts in {(time.monotonic() - start) / 60:.0f} minutes:")
    for what, count in soaked.disturbances.most_common():
        print(f"  {count:4}  {what}")
    print(f"The longest of {len(soaked.stops)} stops took {max(soaked.stops, default=0):.1f} s")
    before, after = soaked.growth()
    print(f"The trainer that lived longest had {before >> 20} MiB, and {after >> 20} at last")
    for fault in soaked.faults:
        print(f"WRONG: {fault}")
    sys.exit(bool(soaked.faults))


if __name__ == "__main__":
    main()
