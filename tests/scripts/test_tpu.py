"""scripts/tpu.sh with a fake gcloud that records its arguments."""

import os
import pty
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.scripts.stubs import ROOT, Stubs

TPU = ROOT / "scripts/tpu.sh"

# Prints the next line of the file `states` when a slice is described; fails on "fail".
STATES = """
[[ "$*" == *describe* ]] || exit 0
state=$(head -n 1 '{states}')
sed -i 1d '{states}'
[[ $state != fail ]] || {{ echo 'ERROR: NOT_FOUND' >&2; exit 1; }}
echo "$state"
"""


def gcloud(stubs: Stubs, *states: str) -> None:
    file = stubs.directory.parent / "states"
    file.write_text("".join(f"{state}\n" for state in states))
    stubs.add("gcloud", STATES.format(states=file))
    stubs.add("sleep")


def gcloud_calls(stubs: Stubs) -> list[list[str]]:
    return [call[1:] for call in stubs.calls("gcloud")]


def printed(ended: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """Returns the commands that the script printed, split as a shell would split them."""
    return [shlex.split(line[2:]) for line in ended.stderr.splitlines() if line.startswith("+ ")]


QUEUED, VM = ["compute", "tpus", "queued-resources"], ["compute", "tpus", "tpu-vm"]
CREATE = [*QUEUED, "create", "pod", "--node-id=pod", "--accelerator-type=v4-16"]
IMAGE = "--runtime-version=tpu-ubuntu2204-base"
DESCRIBE = [*QUEUED, "describe", "pod", "--format=value(state.state)"]


def test_create_requests_the_slice_and_waits_until_it_is_ready(stubs: Stubs) -> None:
    gcloud(stubs, "fail", "ACCEPTED", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE")
    ended = stubs.run(TPU, "create", "pod", "--type=v4-16", "--spot")
    assert ended.returncode == 0
    assert gcloud_calls(stubs) == [DESCRIBE, [*CREATE, IMAGE, "--async", "--spot"], *[DESCRIBE] * 5]
    assert printed(ended) == [["gcloud", *command] for command in gcloud_calls(stubs)[1:3]]
    states = [line.split(": ")[1] for line in ended.stdout.splitlines()]
    assert states == ["ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]


def test_a_slice_that_was_already_requested_is_only_waited_for(stubs: Stubs) -> None:
    gcloud(stubs, "PROVISIONING", "PROVISIONING", "ACTIVE")
    ended = stubs.run(TPU, "create", "pod", "--type=v4-16")
    assert ended.returncode == 0
    assert gcloud_calls(stubs) == [DESCRIBE] * 3
    assert "pod has already been requested" in ended.stdout


@pytest.mark.parametrize(
    ("kind", "accelerator", "runtime"),
    [
        ("v5e-8", "v5litepod-8", "v2-alpha-tpuv5-lite"),
        ("v5litepod-8", "v5litepod-8", "v2-alpha-tpuv5-lite"),
        ("v5p-8", "v5p-8", "v2-alpha-tpuv5"),
        ("v6e-8", "v6e-8", "v2-alpha-tpuv6e"),
    ],
)
def test_newer_slices_are_requested_by_their_own_names_and_images(
    stubs: Stubs, kind: str, accelerator: str, runtime: str
) -> None:
    gcloud(stubs, "fail", "ACTIVE")
    assert stubs.run(TPU, "create", "pod", f"--type={kind}").returncode == 0
    wanted = {f"--accelerator-type={accelerator}", f"--runtime-version={runtime}"}
    assert wanted < set(gcloud_calls(stubs)[1])


def test_create_with_no_wait_does_not_wait(stubs: Stubs) -> None:
    gcloud(stubs, "fail", "ACCEPTED")
    assert stubs.run(TPU, "create", "pod", "--type=v4-16", "--no-wait").returncode == 0
    assert gcloud_calls(stubs) == [DESCRIBE, [*CREATE, IMAGE, "--async"]]


def test_arguments_after_two_dashes_go_to_gcloud(stubs: Stubs) -> None:
    gcloud(stubs, "fail", "ACTIVE")
    stubs.run(TPU, "create", "pod", "--type=v4-16", "--", "--labels=a=b c", "--network=x")
    assert gcloud_calls(stubs)[1] == [*CREATE, IMAGE, "--async", "--labels=a=b c", "--network=x"]


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDING", "SUSPENDED"])
def test_a_slice_that_failed_or_was_suspended_is_not_waited_for(stubs: Stubs, state: str) -> None:
    gcloud(stubs, "fail", state)
    ended = stubs.run(TPU, "create", "pod", "--type=v4-16")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"tpu.sh: pod is {state} and will not come back: scripts/tpu.sh delete pod, then create"
    )


def test_waiting_survives_occasional_failures_of_gcloud(stubs: Stubs) -> None:
    gcloud(stubs, "fail", *["fail"] * 9, "ACCEPTED", "fail", "ACTIVE")
    assert stubs.run(TPU, "create", "pod", "--type=v4-16").returncode == 0


def test_waiting_ends_if_gcloud_keeps_failing(stubs: Stubs) -> None:
    gcloud(stubs, *["fail"] * 20)
    ended = stubs.run(TPU, "create", "pod", "--type=v4-16")
    assert ended.returncode == 1
    assert ended.stderr.endswith("failed to describe pod 10 times in a row\n")


def test_a_refused_request_is_not_waited_for(stubs: Stubs) -> None:
    stubs.add("gcloud", "echo 'ERROR: quota exceeded' >&2; exit 1")
    ended = stubs.run(TPU, "create", "pod", "--type=v4-16")
    assert ended.returncode == 1
    assert ended.stderr.endswith("ERROR: quota exceeded\n")
    assert len(gcloud_calls(stubs)) == 2


# SSH gives up after a minute without an answer, and asks for nothing but on a terminal.
PATIENT = ["ConnectTimeout=20", "ServerAliveInterval=15", "ServerAliveCountMax=4", "BatchMode=yes"]
SSH = [*VM, "ssh", "pod", *(f"--ssh-flag=-o{option}" for option in PATIENT)]
ON_ALL = [*SSH, "--worker=all"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (
            ["run", "pod", "--", "python3", "-m", "launch.doctor"],
            [*ON_ALL, "--command=cd hackmatrix && python3 -m launch.doctor"],
        ),
        (
            ["run", "pod", "--worker=0", "--", "ls"],
            [*SSH, "--worker=0", "--command=cd hackmatrix && ls"],
        ),
        (
            ["train", "pod", "--", "--workdir=/mnt/runs"],
            [*ON_ALL, "--command=hackmatrix/scripts/tpu_worker.sh start --workdir=/mnt/runs"],
        ),
        (
            ["status", "pod"],
            [*ON_ALL, "--command=hackmatrix/scripts/tpu_worker.sh status 2>/dev/null || echo idle"],
        ),
        (
            ["logs", "pod"],
            [*SSH, "--worker=0", "--command=tail -n 50 -F hackmatrix.log"],
        ),
        (
            ["logs", "pod", "--worker=2"],
            [*SSH, "--worker=2", "--command=tail -n 50 -F hackmatrix.log"],
        ),
        (
            ["stop", "pod", "--wait=300"],
            [*ON_ALL, "--command=hackmatrix/scripts/tpu_worker.sh stop 300"],
        ),
        (["delete", "pod"], [*QUEUED, "delete", "pod", "--force", "--quiet"]),
    ],
)
def test_each_command_calls_gcloud_once_and_prints_the_call(
    stubs: Stubs, tmp_path: Path, words: list[str], command: list[str]
) -> None:
    gcloud(stubs)
    ended = stubs.run(TPU, *words, cwd=tmp_path)
    assert ended.returncode == 0
    assert gcloud_calls(stubs) == [command]
    assert printed(ended)[-1] == ["gcloud", *command]


def test_ssh_may_ask_for_a_passphrase_on_a_terminal(stubs: Stubs) -> None:
    gcloud(stubs)
    terminal, program_side = pty.openpty()
    subprocess.run([TPU, "logs", "pod"], env=stubs.environment, stdin=program_side, check=True)
    os.close(terminal)
    os.close(program_side)
    (words,) = gcloud_calls(stubs)
    assert "--ssh-flag=-oConnectTimeout=20" in words
    assert "--ssh-flag=-oBatchMode=yes" not in words


def test_zone_and_project_are_passed_with_every_command(
    stubs: Stubs, checkout: Path, tmp_path: Path
) -> None:
    gcloud(stubs, "fail", "ACTIVE")
    place = ["--zone=us-central2-b", "--project=my-project"]
    for words in (
        ["create", "pod", "--type=v4-8"],
        ["setup", "pod"],
        ["logs", "pod"],
        ["fetch", "pod", "hackmatrix/runs"],
        ["delete", "pod"],
    ):
        assert stubs.run(checkout / "scripts/tpu.sh", *words, *place, cwd=tmp_path).returncode == 0
    assert len(gcloud_calls(stubs)) == 9
    assert all(set(place) < set(command) for command in gcloud_calls(stubs))


@pytest.mark.parametrize("command", ["create", "setup", "run", "train", "logs", "stop", "delete"])
def test_a_dry_run_prints_the_commands_and_runs_none(
    stubs: Stubs, checkout: Path, command: str
) -> None:
    tpu = checkout / "scripts/tpu.sh"
    gcloud(stubs, "fail", "ACTIVE")
    words = {"create": ["--type=v4-16"], "run": ["--", "ls"]}.get(command, [])
    dry = stubs.run(tpu, command, "pod", "--dry-run", *words)
    assert dry.returncode == 0
    assert stubs.calls() == []
    real = stubs.run(tpu, command, "pod", *words)
    assert [each[:4] for each in printed(dry)] == [each[:4] for each in printed(real)]


def test_a_dry_run_needs_no_gcloud(stubs: Stubs) -> None:
    assert stubs.run(TPU, "delete", "pod", "--dry-run", PATH="/usr/bin:/bin").returncode == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["launch", "pod"], "there is no command 'launch'"),
        (["stop"], "stop needs the name of a slice: "),
        (["stop", "pod", "other"], "stop takes one name, not 'pod other'"),
        (["stop", "pod", "--worker=1"], "stop takes no --worker=1"),
        (["logs", "pod", "--spot"], "logs takes no --spot"),
        (["stop", "pod", "--fast"], "there is no option '--fast'; scripts/tpu.sh --help"),
        *[
            ([*words, option], f"there is no option '{option}': {behind}; scripts/tpu.sh --help")
            for words, option, behind in (
                (["train", "pod"], "--config.lr=1", "arguments for training come after --"),
                (["create", "pod", "--type=v4-8"], "--labels=a=b", "flags of gcloud come after --"),
                (["run", "pod"], "-c", "the program and its arguments come after --"),
            )
        ],
        (["stop", "pod", "--", "now"], "stop takes no --"),
        (["create", "pod"], "create needs a type: --type=v4-8"),
        (["run", "pod"], "run needs a program: "),
        (["fetch", "pod"], "fetch takes NAME FROM [TO]"),
    ],
)
def test_a_wrong_command_is_reported_in_one_line_and_calls_nothing(
    stubs: Stubs, words: list[str], what: str
) -> None:
    gcloud(stubs)
    ended = stubs.run(TPU, *words)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"tpu.sh: {what}")
    assert ended.stderr.count("\n") == 1
    assert stubs.calls() == []


def test_a_missing_gcloud_is_reported_in_one_line(stubs: Stubs) -> None:
    for program in ("bash", "env", "dirname"):  # /usr/bin may have a gcloud
        (stubs.directory / program).symlink_to(f"/usr/bin/{program}")
    ended = stubs.run(TPU, "delete", "pod", PATH=str(stubs.directory))
    assert ended.returncode == 1
    assert ended.stderr == (
        "tpu.sh: there is no gcloud on the PATH: install the Google Cloud CLI\n"
    )


@pytest.mark.parametrize("words", [[], ["--help"], ["create", "--help"], ["stop", "pod", "--help"]])
def test_help_calls_nothing(stubs: Stubs, words: list[str]) -> None:
    gcloud(stubs)
    ended = stubs.run(TPU, *words)
    assert ended.returncode == 0
    assert ended.stdout.startswith("scripts/tpu.sh COMMAND NAME")
    assert stubs.calls() == []
