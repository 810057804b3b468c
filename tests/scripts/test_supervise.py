"""scripts/supervise.sh with a fake trainer, which ends as each test says."""

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hackmatrix.train.guards import watchdog
from tests.scripts.stubs import ROOT, Stubs, until

SUPERVISE = ROOT / "scripts/supervise.sh"

# A trainer that runs the next line of the list of endings each time it is started.
TRAINER = """
list='{endings}'
read -r ending <"$list"
sed -i 1d "$list"
eval "$ending"
"""
# Saves and stops at the signal; without one, it ends after 20 s.
SAVES = "trap 'exit 42' {signal}; touch '{ready}'; for i in {{1..400}}; do /bin/sleep 0.05; done"

Trainer = Callable[..., None]


def noting(run: str, step: int | str = "") -> str:
    """Returns the command by which a trainer notes its run and its first step."""
    return f"printf '%s\\n%s\\n' '{run}' '{step}' >\"$SUPERVISE_NOTES\""


@pytest.fixture
def trainer(stubs: Stubs, tmp_path: Path) -> Trainer:
    stubs.add("sleep")

    def ends(*endings: str) -> None:
        (tmp_path / "endings").write_text("".join(f"{each}\n" for each in endings))
        body = TRAINER.format(endings=tmp_path / "endings")
        stubs.environment["PYTHON"] = str(stubs.add("python", body))

    return ends


def arguments(stubs: Stubs) -> list[list[str]]:
    calls = stubs.calls("python")
    assert all(call[1:3] == ["-m", "launch.train"] for call in calls)
    return [call[3:] for call in calls]


def pauses(stubs: Stubs) -> list[str]:
    return [seconds for _, seconds in stubs.calls("sleep")]


def test_a_trainer_that_is_done_is_not_started_again(stubs: Stubs, trainer: Trainer) -> None:
    trainer("exit 0")
    ended = stubs.run(SUPERVISE, "--config.seed=1", "--workdir=two words", "--x=it's *")
    assert ended.returncode == 0
    assert arguments(stubs) == [["--config.seed=1", "--workdir=two words", "--x=it's *"]]


def test_the_notes_of_the_trainer_are_removed_at_the_end(
    stubs: Stubs, trainer: Trainer, tmp_path: Path
) -> None:
    trainer(f"echo $SUPERVISE_NOTES >'{tmp_path}/where'; exit 0")
    assert stubs.run(SUPERVISE).returncode == 0
    assert not Path((tmp_path / "where").read_text().strip()).exists()


@pytest.mark.parametrize("code", [1, 2, 127, 255])
def test_it_gives_up_on_a_trainer_that_would_fail_again(
    stubs: Stubs, trainer: Trainer, code: int
) -> None:
    trainer(f"exit {code}")
    ended = stubs.run(SUPERVISE)
    assert ended.returncode == code
    assert len(arguments(stubs)) == 1
    assert f"the trainer exited {code}: not tried again" in ended.stdout


@pytest.mark.parametrize("ending", ["exit 42", "kill -KILL $$", "kill -ABRT $$", "exit 134"])
def test_a_trainer_that_was_stopped_or_lost_its_peers_resumes_its_run(
    stubs: Stubs, trainer: Trainer, ending: str
) -> None:
    trainer(f"{noting('gs://runs/a b')}; {ending}", "exit 0")
    ended = stubs.run(SUPERVISE, "--config.seed=1")
    assert ended.returncode == 0
    assert arguments(stubs) == [["--config.seed=1"], ["--config.seed=1", "--resume=gs://runs/a b"]]


def test_a_trainer_that_has_begun_no_run_restarts_with_the_same_arguments(
    stubs: Stubs, trainer: Trainer
) -> None:
    trainer("exit 42", f'{noting("gs://runs/a")}; : >"$SUPERVISE_NOTES"; exit 42', "exit 0")
    assert stubs.run(SUPERVISE, "--config.num_seeds=3").returncode == 0
    assert arguments(stubs) == [["--config.num_seeds=3"]] * 3


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_run_on_a_disk_is_resumed_only_if_it_had_begun(
    stubs: Stubs, trainer: Trainer, tmp_path: Path, has_begun: bool
) -> None:
    """A trainer notes its run before it writes the first file, and may be killed in between."""
    run = tmp_path / "a run"
    run.mkdir()
    begins = f"touch '{run}/config.json'" if has_begun else "true"
    trainer(f"{noting(str(run))}; {begins}; kill -KILL $$", "exit 0")
    assert stubs.run(SUPERVISE).returncode == 0
    assert arguments(stubs)[1] == [f"--resume={run}"] * has_begun


def test_every_restart_resumes_the_first_run(stubs: Stubs, trainer: Trainer) -> None:
    """Even if others begin runs meanwhile, and if a restart ends before it notes its run."""
    trainer(
        f"{noting('gs://runs/a')}; exit 42",
        "exit 42",
        f"{noting('gs://runs/a')}; exit 42",
        "exit 0",
    )
    assert stubs.run(SUPERVISE, "--resume=auto").returncode == 0
    assert arguments(stubs) == [["--resume=auto"], *[["--resume=auto", "--resume=gs://runs/a"]] * 3]


def test_a_trainer_that_ends_three_times_at_the_same_step_is_given_up(
    stubs: Stubs, trainer: Trainer
) -> None:
    trainer(*[f"{noting('gs://runs/a', 4096)}; exit 42"] * 9)
    ended = stubs.run(SUPERVISE)
    assert ended.returncode == 42
    assert len(arguments(stubs)) == 3
    assert "the trainer exited 42 at step 4096, 3 times in a row: given up" in ended.stdout


def test_a_trainer_that_gets_further_or_ends_differently_is_restarted(
    stubs: Stubs, trainer: Trainer
) -> None:
    ways = [(0, "exit 42"), (0, "exit 42"), (64, "exit 42"), (64, "kill -KILL $$")] * 2
    trainer(*[f"{noting('gs://runs/a', step)}; {ending}" for step, ending in ways], "exit 0")
    assert stubs.run(SUPERVISE).returncode == 0
    assert len(arguments(stubs)) == 9


def test_the_pause_doubles_up_to_the_longest(stubs: Stubs, trainer: Trainer) -> None:
    trainer(*["exit 42"] * 6, "exit 0")
    assert stubs.run(SUPERVISE, SUPERVISE_LONGEST_PAUSE="30").returncode == 0
    assert pauses(stubs) == ["5", "10", "20", "30", "30", "30"]


def test_restarts_without_a_good_run_are_bounded(stubs: Stubs, trainer: Trainer) -> None:
    trainer(*["exit 42"] * 9)
    ended = stubs.run(SUPERVISE, SUPERVISE_RESTARTS="3")
    assert ended.returncode == 42
    assert len(arguments(stubs)) == 4
    assert "given up after 3 restarts without a good run" in ended.stdout


@pytest.mark.parametrize(("step", "waited"), [(0, ["5", "10", "5", "10"]), ("", ["5", "10"])])
def test_a_good_run_resets_the_count_and_the_pause_but_a_start_that_hangs_does_not(
    stubs: Stubs, trainer: Trainer, step: int | str, waited: list[str]
) -> None:
    long = f"{noting('gs://runs/mine', step)}; /bin/sleep 2.1; exit 42"
    trainer("exit 42", "exit 42", long, "exit 42", "exit 42", "exit 42")
    assert stubs.run(SUPERVISE, SUPERVISE_RESTARTS="2", SUPERVISE_GOOD_RUN="2").returncode == 42
    assert pauses(stubs) == waited
    (longest_start,) = re.findall(r"longest_start=(\d+)", SUPERVISE.read_text())
    assert float(longest_start) == watchdog.LONG


def test_its_run_is_resumed_even_if_files_in_tmp_are_removed(
    stubs: Stubs, trainer: Trainer, tmp_path: Path
) -> None:
    stubs.environment["TMPDIR"] = str(tmp_path / "temporary")
    (tmp_path / "temporary").mkdir()
    trainer(f"{noting('gs://runs/mine')}; rm -f '{tmp_path}'/temporary/*; exit 42", "exit 0")
    assert stubs.run(SUPERVISE).returncode == 0
    assert arguments(stubs) == [[], ["--resume=gs://runs/mine"]]


@pytest.mark.parametrize(("name", "passed"), [("TERM", "TERM"), ("INT", "INT"), ("HUP", "TERM")])
def test_a_signal_is_forwarded_and_the_exit_code_returned(
    stubs: Stubs, trainer: Trainer, tmp_path: Path, name: str, passed: str
) -> None:
    """SIGHUP, which a closing terminal sends, also makes the trainer save and stop."""
    ready = tmp_path / "ready"
    trainer(SAVES.format(signal=passed, ready=ready))
    running = stubs.start(SUPERVISE)
    until(ready.exists)
    running.send_signal(signal.Signals[f"SIG{name}"])
    printed, _ = running.communicate(timeout=20)
    assert running.returncode == 42
    assert len(arguments(stubs)) == 1
    assert f"asked to stop by SIG{passed}; the trainer exited 42" in printed


def test_the_exit_code_of_the_trainer_is_returned_even_if_the_terminal_is_gone(
    stubs: Stubs, trainer: Trainer, tmp_path: Path
) -> None:
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    trainer(SAVES.format(signal="TERM", ready=ready))
    stubs.environment["SUPERVISE_ENDED"] = str(ended)
    terminal, program_side = pty.openpty()
    running = subprocess.Popen(
        [SUPERVISE], env=stubs.environment, stdout=program_side, stderr=program_side, text=True
    )
    os.close(program_side)
    until(ready.exists)
    os.close(terminal)
    running.send_signal(signal.SIGHUP)
    assert running.wait(timeout=20) == 42
    assert ended.read_text().startswith("42 ")


def test_a_supervisor_stopped_as_it_starts_does_not_report_success(
    stubs: Stubs, trainer: Trainer, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    trainer("exit 42")
    find = "up=$(cut -d' ' -f4 /proc/$PPID/stat)"
    else_it_is = "grep -q scripts/supervise.sh /proc/$up/cmdline || up=$PPID"
    stubs.add("mktemp", f'{find}\n{else_it_is}\nkill -TERM "$up"; exec /usr/bin/mktemp "$@"')
    assert stubs.run(SUPERVISE, SUPERVISE_ENDED=str(ended)).returncode != 0
    assert ended.read_text().split()[0] in ("42", "143")


def test_supervision_continues_if_nobody_reads_its_output(stubs: Stubs, trainer: Trainer) -> None:
    trainer("exit 42", "exit 0")
    reader, written = os.pipe()
    os.close(reader)
    running = subprocess.Popen([SUPERVISE], env=stubs.environment, stdout=written)
    os.close(written)
    assert running.wait(timeout=20) == 0
    assert len(arguments(stubs)) == 2


def test_a_signal_during_a_pause_ends_the_supervisor(stubs: Stubs, trainer: Trainer) -> None:
    trainer("exit 42", "exit 0")
    stubs.add("sleep", "exec /bin/sleep 20")
    running = stubs.start(SUPERVISE)
    until(lambda: len(pauses(stubs)) == 1)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=20)
    assert running.returncode == 42
    assert len(arguments(stubs)) == 1


def test_a_frozen_trainer_has_not_ended(stubs: Stubs, trainer: Trainer, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    trainer(f"ln -s $$ '{ready}'; kill -STOP $$; exit 7")
    running = stubs.start(SUPERVISE)
    until(ready.is_symlink)
    frozen = int(ready.readlink().name)
    until(lambda: ") T " in Path(f"/proc/{frozen}/stat").read_text())
    time.sleep(0.2)
    assert running.poll() is None
    os.kill(frozen, signal.SIGCONT)
    running.communicate(timeout=20)
    assert running.returncode == 7


def test_a_stale_tpu_lock_is_removed_before_a_restart(
    stubs: Stubs, trainer: Trainer, tmp_path: Path
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/accel0").touch()
    (tmp_path / "tmp").mkdir()
    lock = tmp_path / "tmp/libtpu_lockfile"
    trainer(f"touch '{lock}'; kill -KILL $$", f"test ! -e '{lock}'")
    assert stubs.run(SUPERVISE).returncode == 0


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        ("PYTHON", "/nowhere/python", "there is no /nowhere/python"),
        ("SUPERVISE_PAUSE", "a while", "must be whole numbers, not 'a while'"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line_and_noted_as_the_end(
    stubs: Stubs, trainer: Trainer, tmp_path: Path, setting: str, value: str, what: str
) -> None:
    trainer("exit 0")
    stubs.environment[setting] = value
    ended = stubs.run(SUPERVISE, SUPERVISE_ENDED=str(tmp_path / "ended"))
    assert (tmp_path / "ended").read_text().startswith("1 ")
    assert ended.returncode == 1
    assert what in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert stubs.calls() == []


def test_help_starts_nothing(stubs: Stubs, trainer: Trainer) -> None:
    trainer("exit 0")
    ended = stubs.run(SUPERVISE, "--help")
    assert ended.returncode == 0
    assert "--resume=RUN" in ended.stdout
    assert stubs.calls() == []
