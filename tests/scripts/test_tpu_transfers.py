"""What scripts/tpu.sh copies: a commit to a slice, and runs back from it."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts.stubs import ROOT, Stubs, commit_setup_script
from tests.scripts.world import KEEP, TRAINING, World

TPU = ROOT / "scripts/tpu.sh"


def commit_id(checkout: Path, which: str = "HEAD") -> str:
    git = ["git", "-C", str(checkout), "rev-parse", which]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def test_an_earlier_commit_can_be_sent_and_the_clone_stays_unchanged(
    stubs: Stubs, pod: Path, checkout: Path
) -> None:
    """The directory for temporary files may have any name."""
    temporary = stubs.home / "it's a place"
    temporary.mkdir()
    for text in ("first", "second"):
        commit_setup_script(checkout, f"#!/bin/sh\necho {text}\n")
    words = ("setup", "pod", "--commit=HEAD~1")
    ended = stubs.run(checkout / "scripts/tpu.sh", *words, TMPDIR=str(temporary))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "first\n" * 2
    assert list(temporary.iterdir()) == []
    names = ["git", "-C", str(checkout), "for-each-ref", "refs/set-up"]
    assert subprocess.run(names, capture_output=True, check=True).stdout == b""


@pytest.mark.parametrize(
    ("statuses", "set_up_with"),
    [
        (["busy", "stopped", "taken", "idle", "done"], "HEAD~1"),
        (["busy", "idle", "done"], "HEAD~1"),
        (["failed", "idle", "done"], "HEAD"),  # which may contain a fix
        (["busy", "stopped", "idle", "done"], "HEAD"),
        (["busy", "set-up", "idle", "done"], "HEAD"),
        (["busy", "stopped", "set-up", "busy", "taken", "idle", "done"], "HEAD"),  # by hand
        (["failed", "busy", "taken", "idle", "done"], "HEAD"),
    ],
)
def test_a_slice_gets_the_commit_with_which_keep_began_unless_somebody_intervened(
    world: World, checkout: Path, statuses: list[str], set_up_with: str
) -> None:
    git = f"git -C '{checkout}' -c user.name=a -c user.email=a@b"
    world.stubs.add("sleep", f"[[ -e ~/was ]] || {git} commit -q --allow-empty -m b; touch ~/was")
    world.queue("states", "ACTIVE")
    world.queue("statuses", *statuses)
    ended = world.keep("--hours=1")
    assert ended.returncode == 0, ended.stderr
    (named,) = [line.split()[-1] for line in ended.stderr.splitlines() if "ref refs/" in line]
    assert named == commit_id(checkout, set_up_with)


def test_setup_reports_uncommitted_changes(stubs: Stubs, pod: Path, checkout: Path) -> None:
    (checkout / "constraints.txt").write_text("")
    printed = stubs.run(checkout / "scripts/tpu.sh", "setup", "pod", "--dry-run").stdout
    assert printed == f"uncommitted changes stay here: the workers get {commit_id(checkout)[:7]}\n"


@pytest.mark.parametrize("words", [("setup", "pod"), (*KEEP, "--", *TRAINING)])
def test_a_shallow_clone_is_refused(
    stubs: Stubs, checkout: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    git = ["git", "clone", "--quiet", "--depth=1"]
    subprocess.run([*git, f"file://{checkout}", tmp_path / "shallow"], check=True)
    stubs.add("gcloud")
    ended = stubs.run(tmp_path / "shallow/scripts/tpu.sh", *words)
    assert ended.returncode == 1
    assert ended.stderr == (
        "tpu.sh: this clone is shallow, and the workers need the whole history:"
        " git fetch --unshallow\n"
    )
    assert stubs.calls() == []


@pytest.mark.parametrize(
    "words",
    [
        ("setup", "pod"),
        (*KEEP, "--", *TRAINING),
        ("train", "pod", "--", "--config=configs/v4_8.py"),
    ],
)
def test_a_directory_that_is_no_clone_is_refused(
    stubs: Stubs, tmp_path: Path, words: tuple[str, ...]
) -> None:
    for name in ("scripts", "configs"):
        shutil.copytree(ROOT / name, tmp_path / "archive" / name)
    stubs.add("gcloud")
    ended = stubs.run(tmp_path / "archive/scripts/tpu.sh", *words)
    assert ended.returncode == 1
    *of_git, ours = ended.stderr.splitlines()
    assert "not a git repository" in of_git[0]
    assert ours == (
        "tpu.sh: there is no commit 'HEAD' here to send to the workers: use a git clone of the"
        " project"
    )
    assert stubs.calls() == []


SCP = ["gcloud", "compute", "tpus", "tpu-vm", "scp", "--recurse"]
RSYNC = ["gcloud", "storage", "rsync", "--recursive", r"--exclude=.*\.(compiled|rest)/.*"]


@pytest.mark.parametrize(
    ("place", "found", "command"),
    [
        ("hackmatrix/runs/RUN", "", [*SCP, "pod:hackmatrix/runs/RUN", "to/", "--worker=0"]),
        ("hackmatrix/runs/", "A", [*SCP, "pod:hackmatrix/runs/*", "to/", "--worker=0"]),
        ("gs://bucket/runs/RUN/", "", [*RSYNC, "gs://bucket/runs/RUN", "to/RUN"]),
        ("gs://bucket/runs", "A", [*RSYNC, "gs://bucket/runs", "to"]),
        ("gs://bucket", "A", [*RSYNC, "gs://bucket", "to"]),
    ],
)
def test_fetch_copies_a_run_under_its_name_and_every_run_of_a_directory(
    stubs: Stubs, tmp_path: Path, place: str, found: str, command: list[str]
) -> None:
    lists = f"[[ '{found}' ]] && echo '{place}/{found}/config.json'"
    none = "echo 'ERROR: One or more URLs matched no objects.' >&2; exit 1"
    stubs.add(
        "gcloud",
        f'case "$*" in *\\ ssh\\ *) {lists}; true ;; *\\ ls\\ *) {lists} || {{ {none}; }} ;; esac',
    )
    assert stubs.run(TPU, "fetch", "pod", place, "to", cwd=tmp_path).returncode == 0
    looked, copied = stubs.calls("gcloud")
    where = f"{place.rstrip('/')}/*/config.json"
    assert looked[-1] == (where if "gs:" in place else f"--command=ls {where} 2>/dev/null || true")
    assert copied[: len(command)] == command
    assert ("--scp-flag=-oServerAliveInterval=15" in copied) == ("scp" in command)


def test_nothing_is_fetched_if_the_bucket_cannot_be_listed(stubs: Stubs, tmp_path: Path) -> None:
    stubs.add("gcloud", "echo 'ERROR: HTTPError 503' >&2; exit 1")
    ended = stubs.run(TPU, "fetch", "pod", "gs://bucket/runs", "to", cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        "tpu.sh: gs://bucket/runs cannot be listed: ERROR: HTTPError 503\n"
    )
    assert len(stubs.calls("gcloud")) == 1


def test_a_dry_run_of_fetch_prints_the_commands_for_several_runs_and_for_one(
    stubs: Stubs, tmp_path: Path
) -> None:
    dry = stubs.run(TPU, "fetch", "pod", "runs", "to", "--dry-run", cwd=tmp_path)
    assert "if it finds any, runs is a directory of runs:\n+ mkdir" in dry.stderr
    assert "if it finds none, runs is a run:\n+ mkdir" in dry.stderr
    each, one = [shlex.split(line)[1:9] for line in dry.stderr.splitlines() if " scp " in line]
    assert each == [*SCP, "pod:runs/*", "to/"]
    assert one == [*SCP, "pod:runs", "to/"]
    assert not (tmp_path / "to").exists()
