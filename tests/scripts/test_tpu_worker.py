"""scripts/tpu_worker.sh: background training and set-up, how they end, and the TPU's lock."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripts.stubs import Stubs, commit_setup_script, until
from tests.scripts.world import SLICE

# Ends by itself after 20 s, should no test stop it.
TRAINS = "for i in {1..400}; do /bin/sleep 0.05; done"
SAVES = f"trap 'echo saved; exit 42' TERM; echo training; {TRAINS}"
DEAF = f"trap '' TERM; echo training; {TRAINS}"


class Worker:
    """The checkout of one worker, and its TPU."""

    def __init__(self, stubs: Stubs, checkout: Path, root: Path) -> None:
        self.stubs = stubs
        self.script = checkout / "scripts/tpu_worker.sh"
        self.run = checkout.with_suffix(".run")
        self.log = checkout.with_suffix(".log")
        self.ended = checkout.with_suffix(".ended")
        self.lock = root / "tmp/libtpu_lockfile"
        self.device = root / "dev/accel0"
        self.newer_device = root / "dev/vfio/0"
        for path in (self.lock, self.device, self.newer_device):
            path.parent.mkdir(exist_ok=True)
            path.touch()

    def do(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.stubs.run(self.script, *words)

    def train(self, trainer: str, *words: str) -> None:
        self.stubs.environment["PYTHON"] = str(self.stubs.add("python", trainer))
        before = self.printed("training")
        assert self.do("start", *words).returncode == 0
        until(lambda: self.printed("training") > before)

    def status(self, *arguments: str) -> str:
        return self.do("status", *arguments).stdout.removeprefix("t1v-n-5f3e-w-0: ").strip()

    def printed(self, line: str) -> int:
        """How often that line is in the log."""
        return self.log.read_text().splitlines().count(line) if self.log.exists() else 0


@pytest.fixture
def worker(stubs: Stubs, checkout: Path, tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(stubs, checkout, tmp_path)
    yield worker
    worker.do("stop", "1")


def test_training_outlives_the_command_that_started_it(worker: Worker) -> None:
    worker.train(SAVES, "--workdir=two words", "--x=$HOME")
    arguments = [call[3:] for call in worker.stubs.calls("python")]
    assert arguments == [["--workdir=two words", "--x=$HOME"]]


def test_status_prints_what_the_worker_does_or_how_its_training_ended(worker: Worker) -> None:
    assert worker.status() == "idle"
    worker.train(SAVES)
    assert worker.status() == "busy"
    worker.do("stop")
    assert worker.status() == "stopped"
    for code, word in ((0, "done"), (1, "failed")):
        worker.train(f"echo training; exit {code}")
        until(lambda: worker.status() != "busy")
        assert worker.status() == word
    _, life = worker.ended.read_text().split()
    for code, word in ((2, "failed"), (127, "failed"), (137, "stopped"), (143, "stopped")):
        worker.ended.write_text(f"{code} {life}\n")  # the last two by SIGKILL and SIGTERM
        assert worker.status() == word
    worker.ended.write_text("0 another-life\n")  # from before a reboot of the machine
    assert worker.status() == "idle"


def test_status_with_arguments_is_about_training_with_just_these_arguments(worker: Worker) -> None:
    mine, other = ["--workdir=two words"], ["--workdir=two", "words"]
    assert worker.status(*mine) == "idle"
    worker.train(SAVES, *mine)
    assert [worker.status(*each) for each in (mine, other)] == ["busy", "busy otherwise"]
    worker.do("stop")
    assert [worker.status(*each) for each in (mine, other)] == ["stopped", "idle"]


def test_a_new_start_forgets_how_training_ended_before(worker: Worker) -> None:
    """A supervisor that is killed does not replace the note."""
    worker.train("echo training; exit 1")
    until(lambda: worker.status() == "failed")
    worker.train(SAVES)
    assert not worker.ended.exists()


def test_stop_lets_training_save(worker: Worker) -> None:
    worker.train(SAVES)
    stopped = worker.do("stop")
    assert stopped.returncode == 0
    assert "asked to stop by SIGTERM; the trainer exited 42" in stopped.stdout
    assert worker.printed("saved") == 1


def test_training_that_does_not_stop_is_killed(worker: Worker) -> None:
    worker.train(DEAF)
    stopped = worker.do("stop", "1")
    assert stopped.returncode == 0
    assert "killed, as it had not stopped within 1 s" in stopped.stdout
    assert "nothing runs here" in worker.do("stop").stdout


def test_a_trainer_whose_supervisor_was_killed_is_stopped_too(worker: Worker) -> None:
    worker.train(SAVES)
    supervisor, _ = worker.run.read_text().split()
    os.kill(int(supervisor), signal.SIGKILL)
    until(lambda: has_ended(supervisor))
    assert worker.do("stop").returncode == 0
    assert worker.printed("saved") == 1


def has_ended(process: str) -> bool:
    """Returns whether a process has ended, even if nobody has waited for it yet."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True)
    return not state.stdout or state.stdout.startswith("Z")


@pytest.mark.parametrize(
    ("deaf", "wait", "message"),
    [
        ("", "10", "stopped: set-up has to be done again"),
        (
            "trap '' TERM",
            "1",
            "killed, as it had not stopped within 1 s; set-up has to be done again",
        ),
    ],
)
def test_a_set_up_that_was_stopped_can_be_repeated(
    stubs: Stubs, checkout: Path, tmp_path: Path, deaf: str, wait: str, message: str
) -> None:
    home, tpu = tmp_path / "pod/w-0", checkout / "scripts/tpu.sh"
    stubs.add("gcloud", SLICE.format(slice=tmp_path / "pod").replace(" w-1", ""))
    commit_setup_script(
        checkout, f"#!/bin/sh\n{deaf}\n[ -e ~/begun ] || {{ touch ~/begun; sleep 20; }}\n"
    )
    setting_up = stubs.start(tpu, "setup", "pod")
    until((home / "begun").exists)
    status = stubs.run(tpu, "status", "pod", "--", "--workdir=runs").stdout
    stopped = stubs.run(tpu, "stop", "pod", f"--wait={wait}")
    setting_up.communicate(timeout=10)
    assert setting_up.returncode != 0
    assert status == "t1v-n-5f3e-w-0: in set-up\n"
    assert stopped.returncode == 0
    assert stopped.stdout == f"t1v-n-5f3e-w-0: {message}\n"
    assert stopped.stderr.count("\n") == 1  # only the command of gcloud
    (home / "hackmatrix/.git/index.lock").touch()  # as a git that was killed leaves it
    assert stubs.run(tpu, "setup", "pod").returncode == 0


@pytest.mark.parametrize(
    ("noted", "why"),
    [
        ("4194305 training", "training cannot be killed: delete the slice"),  # no such process
        ("4194305 set-up", "set-up cannot be killed: delete the slice"),
        ("", "what runs here has only just started: run stop again in a moment"),
    ],
)
def test_stop_names_what_it_cannot_stop(worker: Worker, stubs: Stubs, noted: str, why: str) -> None:
    stubs.add(
        "flock", '[[ "$*" != "--wait 10 "* ]] || set -- -w 0 "${@:3}"\nexec /usr/bin/flock "$@"'
    )
    worker.run.write_text(noted)
    holder = subprocess.Popen(["/usr/bin/flock", worker.run, "sleep", "20"], start_new_session=True)
    until(lambda: worker.status() != "idle")
    stopped = worker.do("stop", "0")
    os.killpg(holder.pid, signal.SIGKILL)
    holder.wait()
    assert stopped.returncode == 1
    assert stopped.stderr == f"t1v-n-5f3e-w-0: {why}\n"


def test_a_second_run_is_refused_while_one_trains(worker: Worker) -> None:
    worker.train(SAVES)
    second = worker.do("start")
    assert second.returncode == 1
    assert second.stderr == (
        "t1v-n-5f3e-w-0: training or set-up runs here already: scripts/tpu.sh stop NAME\n"
    )


def test_training_can_be_started_again_after_a_stop(worker: Worker) -> None:
    for _ in range(2):
        worker.train(SAVES)
        worker.do("stop")
    assert worker.printed("saved") == 2


def test_stop_frees_the_tpu_if_nothing_runs(worker: Worker) -> None:
    stopped = worker.do("stop")
    assert stopped.returncode == 0
    assert "nothing runs here" in stopped.stdout
    assert "removed the stale" in stopped.stdout
    assert not worker.lock.exists()


@pytest.mark.parametrize("what", ["lock", "device", "newer_device"])
def test_the_lock_is_not_removed_while_a_process_holds_the_tpu(worker: Worker, what: str) -> None:
    path: Path = getattr(worker, what)
    with path.open() as held:
        holder = subprocess.Popen(["sleep", "20"], stdin=held)
    refused = worker.do("unlock")
    started = worker.do("start")
    holder.kill()
    holder.wait()
    assert refused.returncode == started.returncode == 1
    assert refused.stderr == (
        f"t1v-n-5f3e-w-0: the TPU is held by process {holder.pid}: end it first\n"
    )
    assert worker.lock.exists()


def test_unlock_changes_nothing_on_a_machine_without_a_tpu(worker: Worker) -> None:
    worker.device.unlink()
    worker.newer_device.unlink()
    assert worker.do("unlock").returncode == 0
    assert worker.lock.exists()


@pytest.mark.parametrize("words", [["pause"], [], ["stop", "soon"]])
def test_a_wrong_command_is_reported_in_one_line(worker: Worker, words: list[str]) -> None:
    ended = worker.do(*words)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert worker.do("--help").stdout.startswith("scripts/tpu_worker.sh start")
