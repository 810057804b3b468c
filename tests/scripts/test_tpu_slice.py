"""scripts/tpu.sh with a simulated slice of two workers, and commands that it refuses."""

import subprocess
from pathlib import Path

import pytest

from tests.scripts.stubs import ROOT, Stubs, commit_setup_script, until
from tests.scripts.world import KEEP, SLICE, TRAINING, World

TPU = ROOT / "scripts/tpu.sh"


def test_arguments_reach_the_workers_unchanged(stubs: Stubs, pod: Path) -> None:
    for worker in ("w-0", "w-1"):
        (pod / worker / "hackmatrix").mkdir(parents=True)
    words = ["two  words", "it's", "$HOME", "*", 'a"b', "", "x;y", "new\nline"]
    stubs.add("show")
    assert stubs.run(TPU, "run", "pod", "--", "show", *words).returncode == 0
    assert stubs.calls("show") == [["show", *words]] * 2


def test_run_fails_if_one_of_the_workers_fails(stubs: Stubs, pod: Path) -> None:
    (pod / "w-0/hackmatrix").mkdir(parents=True)  # and none on the other
    assert stubs.run(TPU, "run", "pod", "--", "true").returncode == 1


def test_log_lines_of_several_workers_begin_with_the_number_of_the_worker(
    stubs: Stubs, pod: Path
) -> None:
    for worker in ("w-0", "w-1"):
        (pod / worker).mkdir(parents=True)
        (pod / worker / "hackmatrix.log").write_text(f"from {worker}\n")
    stubs.add("tail", 'cat "${!#}"')
    followed = stubs.run(TPU, "logs", "pod", "--worker=all")
    assert followed.stdout == "0: from w-0\n1: from w-1\n"


def test_a_slice_is_set_up_trains_and_stops(stubs: Stubs, pod: Path, checkout: Path) -> None:
    tpu = checkout / "scripts/tpu.sh"
    commit_setup_script(checkout, '#!/bin/sh\ncd "$(dirname "$0")/.."; git rev-parse HEAD\n')
    git = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    last = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    trainer = "trap 'exit 42' TERM; echo training; for i in {1..400}; do /bin/sleep 0.05; done"
    stubs.environment["PYTHON"] = str(stubs.add("python", trainer))

    for _ in range(2):  # set up twice, as after a commit
        ready = stubs.run(tpu, "setup", "pod")
        assert ready.returncode == 0
        assert ready.stdout.split() == [last] * 2

    logs = [pod / worker / "hackmatrix.log" for worker in ("w-0", "w-1")]
    try:
        assert stubs.run(tpu, "train", "pod", "--", "--workdir=a b").returncode == 0
        until(lambda: all(log.exists() and "training\n" in log.read_text() for log in logs))
        again = stubs.run(tpu, "setup", "pod")
    finally:
        stopped = stubs.run(tpu, "stop", "pod")
    assert [call[3:] for call in stubs.calls("python")] == [["--workdir=a b"]] * 2
    assert again.returncode == 1
    assert "t1v-n-5f3e-w-1: training or set-up runs here" in again.stderr
    assert stopped.returncode == 0
    assert stopped.stdout.count("the trainer exited 42") == 2


@pytest.fixture
def slice_of_two(world: World, checkout: Path) -> World:
    """A slice whose two workers run the real scripts, but for a set-up that does nothing."""
    world.play(SLICE.format(slice=world.directory / "slice"))
    commit_setup_script(checkout, "#!/bin/sh\nexit 0\n")
    return world


# The first slice is preempted in the midst of training.
TRAINER = """
if [[ $(wc -l <'{world}/lives') == 1 ]]; then
  [[ $HOSTNAME != *-w-0 ]] || echo SUSPENDED >'{world}/states'
  exec /bin/sleep 20
fi
echo trained
"""


def test_a_run_of_two_workers_with_the_real_scripts_survives_a_preemption(
    slice_of_two: World, stubs: Stubs
) -> None:
    trainer = stubs.add("python", TRAINER.format(world=slice_of_two.directory))
    stubs.environment["PYTHON"] = str(trainer)
    stubs.add("sleep", "exec /bin/sleep 0.1")
    ended = slice_of_two.keep()
    assert ended.returncode == 0, ended.stderr + ended.stdout
    once = ["create", "set up", "train", "delete"]
    assert slice_of_two.did() == once * 2
    assert "trained" in ended.stdout
    assert "supervise: the trainer is done" in ended.stdout


def test_a_slice_on_which_another_run_has_ended_trains_this_one(
    slice_of_two: World, stubs: Stubs
) -> None:
    stubs.environment["PYTHON"] = str(stubs.add("python", "echo trained"))
    stubs.add("sleep", "exec /bin/sleep 0.1")
    slice_of_two.queue("states", "ACTIVE")
    another = [*TRAINING, "--config.run_name=another", "--resume=auto"]
    assert stubs.run(slice_of_two.tpu, "setup", "pod").returncode == 0
    assert stubs.run(slice_of_two.tpu, "train", "pod", "--", *another).returncode == 0
    until(lambda: status(slice_of_two, *another) == ["done"] * 2)
    assert status(slice_of_two) == ["done"] * 2
    ended = slice_of_two.keep()
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert slice_of_two.did() == ["set up", "train"] * 2 + ["delete"]
    named = [call[-2] for call in stubs.calls("python")]
    assert named == ["--config.run_name=another"] * 2 + ["--config.run_name=pod"] * 2


@pytest.mark.parametrize(
    ("answer", "what"), [("otherwise", "other training"), ("set-up", "a set-up")]
)
def test_other_training_or_a_set_up_on_the_slice_is_waited_for(
    world: World, answer: str, what: str
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", *[answer] * 3, "idle", "busy", "done")
    ended = world.keep()
    assert ended.returncode == 0
    assert world.did() == ["set up", "train", "delete"]
    assert ended.stdout.count(f"waiting for the end of {what}") == 1


def status(world: World, *arguments: str) -> list[str]:
    printed = world.stubs.run(
        world.tpu, "status", "pod", *(["--", *arguments] if arguments else [])
    )
    return [line.rsplit(": ", 1)[-1] for line in printed.stdout.splitlines()]


def test_workers_whose_training_failed_are_idle_once_they_are_set_up_again(
    slice_of_two: World, stubs: Stubs
) -> None:
    stubs.environment["PYTHON"] = str(stubs.add("python", "exit 1"))
    stubs.run(slice_of_two.tpu, "setup", "pod")
    stubs.run(slice_of_two.tpu, "train", "pod")
    until(lambda: status(slice_of_two) == ["failed"] * 2)
    stubs.run(slice_of_two.tpu, "setup", "pod")
    assert status(slice_of_two) == ["idle"] * 2


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["keep", "pod"], "keep needs a type: --type=v4-8"),
        ([*KEEP], "keep needs -- --workdir=gs://BUCKET/..."),
        ([*KEEP, "--", "--workdir=runs"], "keep needs -- --workdir=gs://BUCKET/..."),
        ([*KEEP, "--", *TRAINING, "--resume=it"], "keep continues the run of"),
        ([*KEEP, "--", *TRAINING, "--config.resume=it"], "keep continues the run of"),
        *[
            ([*KEEP, f"--hours={hours}", "--", *TRAINING], "--hours takes whole hours, from 1")
            for hours in ("1.5", "0", "00", "-1", "", "1000000")
        ],
        (["stop", "pod", "--hours=1"], "stop takes no --hours=1"),
    ],
)
def test_wrong_arguments_of_keep_are_reported_in_one_line(
    world: World, words: list[str], what: str
) -> None:
    ended = world.stubs.run(world.tpu, *words)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"tpu.sh: {what}")
    assert ended.stderr.count("\n") == 1
    assert world.stubs.calls() == []


@pytest.mark.parametrize("command", [("train", "pod"), KEEP])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        *[
            (
                given,
                f"there is no file '{name}' in the commit that workers get: commit it (and"
                " set up again), or give another --config",
            )
            for name, *given in (
                ("configs/mine.py", "--config=configs/mine.py"),
                ("configs/mine.py", "--config", "configs/mine.py:8"),
                ("configs", "--config=configs"),
            )
        ],
        *[
            (given, f"--workdir={name} names no bucket: give --workdir=gs://BUCKET/...")
            for name, *given in (
                ("gs://", "--workdir=gs://"),
                ("gs:///runs", "--workdir", "gs:///runs"),
            )
        ],
    ],
)
def test_arguments_that_training_would_refuse_are_reported_before_gcloud_is_called(
    stubs: Stubs, checkout: Path, command: tuple[str, ...], given: list[str], why: str
) -> None:
    (checkout / "configs/mine.py").touch()  # which is not committed
    stubs.add("gcloud")
    ended = stubs.run(checkout / "scripts/tpu.sh", *command, "--", *TRAINING, *given)
    assert ended.returncode == 1
    assert ended.stderr == f"tpu.sh: {why}\n"
    assert stubs.calls() == []


@pytest.mark.parametrize(
    "given",
    [["--config=configs/v4_8.py:8"], ["--config", "./configs/v4_8.py"], ["--config=/mnt/mine.py"]],
)
def test_configs_that_are_committed_or_that_only_workers_have_are_accepted(
    world: World, tmp_path: Path, given: list[str]
) -> None:
    words = [*KEEP, "--dry-run", "--", *TRAINING, *given]
    ended = world.stubs.run(world.tpu, *words, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (["--config.num_seeds=3"], ["--config.run_name=pod", "--resume=auto"]),
        (["--config.run_name", "mine"], ["--resume=auto"]),
    ],
)
def test_keep_adds_resume_and_a_run_name_unless_one_is_given(
    world: World, stubs: Stubs, given: list[str], added: list[str]
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "idle", "done")
    ended = world.stubs.run(world.tpu, *KEEP, "--", *TRAINING, *given)
    assert ended.returncode == 0, ended.stderr
    (command,) = [call[-1] for call in stubs.calls("gcloud") if "tpu_worker.sh start" in call[-1]]
    assert command.split()[2:] == [*TRAINING, *given, *added]


def test_keep_ends_if_a_replacement_is_never_reached(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "busy", "taken", *["cut"] * 20)
    workdir = TRAINING[1].split("=")
    ended = world.stubs.run(world.tpu, *KEEP, "--", TRAINING[0], *workdir)
    assert ended.returncode == 1
    assert world.did() == ["delete", "create"]
    assert "pod is READY, but could not be reached 10 times in a row" in ended.stdout


def test_a_dry_run_of_keep_prints_its_first_commands(world: World, stubs: Stubs) -> None:
    ended = world.keep("--dry-run")
    assert ended.returncode == 0
    assert stubs.calls("gcloud") == []
    printed = [line for line in ended.stderr.splitlines() if line.startswith("+ gcloud")]
    for line, part in zip(printed, ("create", "scp", "tpu_setup", "start"), strict=True):
        assert part in line
