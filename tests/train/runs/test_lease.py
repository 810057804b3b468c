"""One process at a time trains a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from hackmatrix.errors import UserError
from hackmatrix.train.runs import lease
from hackmatrix.train.runs.lease import Lease, TakenOver
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import Place
from tests.train.runs.full_disk import no_file_larger_than

HOLDS = """
import sys, time
from hackmatrix.train.runs import lease
from hackmatrix.train.runs.places import place
lease._RENEWED_EVERY = 0.2
held = lease.take(place(sys.argv[1]), print, stale_after=1.0)
print("held", flush=True)
while True:
    time.sleep(0.05)
    held.confirm()
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 0.2)
    monkeypatch.setattr(lease, "_STALE_AFTER", 1.0)


@pytest.fixture(params=["disk", "bucket"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    where = tmp_path if request.param == "disk" else request.getfixturevalue("bucket_address")
    return place(where) / "run"


@contextmanager
def another_process(run: Place) -> Iterator[subprocess.Popen[str]]:
    """Starts another process, which holds the lease of the run."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(run)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def take(run: Place) -> Lease:
    return lease.take(run, lambda _: None, stale_after=1.0)


def move_owner_elsewhere(run: Place) -> None:
    """Makes the last owner appear to be on another machine, where its process cannot be checked."""
    (name,) = (run / "owner").names()
    file = run / "owner" / name
    elsewhere = {"machine": "another", "host": "far", "begun": "1"}
    file.write(json.dumps({**json.loads(file.read()), **elsewhere}))


def test_a_second_process_is_refused_with_the_owner_of_the_run(run: Place) -> None:
    with (
        another_process(run) as holder,
        pytest.raises(UserError, match=f"by process {holder.pid} on"),
    ):
        lease.take(run, lambda _: None, stale_after=30.0)  # stops waiting at the first sign of life


def test_the_run_of_a_dead_process_on_this_machine_is_taken_over_at_once(run: Place) -> None:
    with another_process(run) as holder:
        holder.kill()
        holder.wait()
        start = time.monotonic()
        lease.take(run, lambda _: None, stale_after=600.0).confirm()
        assert time.monotonic() - start < 60


def test_a_killed_process_counts_as_gone_although_nobody_has_waited_for_it() -> None:
    """A zombie keeps its id until its parent waits for it, which may be never."""
    process = subprocess.Popen(["sleep", "60"])
    assert lease.process_started(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert lease.process_started(process.pid) is None
    assert lease.process_started(10**20) is None
    process.wait()


@pytest.mark.parametrize("hides", [PermissionError, FileNotFoundError])  # hidepid is 1 or 2
def test_another_users_process_that_proc_hides_is_not_taken_for_gone(
    run: Place, monkeypatch: pytest.MonkeyPatch, hides: type[OSError]
) -> None:
    take(run)
    owner = lease._owner(run, 1)
    assert owner
    read = Path.read_text
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "kill", Mock(side_effect=PermissionError))
        meanwhile.setattr(
            Path,
            "read_text",
            lambda path, **given: (
                Mock(side_effect=hides)() if path.name == "stat" else read(path, **given)
            ),
        )
        assert lease.process_started(owner.process) == ""
        assert not owner.is_gone


def test_a_process_whose_name_was_cut_inside_a_character_is_found() -> None:
    """Linux cuts names after 15 bytes."""
    before = (name := Path("/proc/self/comm")).read_bytes()
    name.write_bytes("é".encode() * 8)
    try:
        assert lease.process_started(os.getpid())
    finally:
        name.write_bytes(before)


@pytest.mark.parametrize(
    "damage",
    [
        {"process": None}, {"process": "abc"}, {"process": 1.5}, {"process": [1]},
        {"process": 10**30}, {"process": -1}, {"process": 0}, {"count": "x"},
        {"has_ended": "no"}, {"begun": 5},
    ],
)  # fmt: skip
def test_an_owner_whose_file_is_damaged_is_unknown_until_it_falls_silent(
    tmp_path: Path, damage: dict[str, Any]
) -> None:
    run = place(tmp_path)
    take(run)._over.set()
    file = tmp_path / "owner/1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    assert lease._owner(run, 1) is None
    messages: list[str] = []
    lease.take(run, messages.append, stale_after=0.1).confirm()
    assert ["Another process was the last to train" in line for line in messages] == [True]


def test_a_process_that_reuses_the_id_of_a_dead_owner_is_not_taken_for_it(run: Place) -> None:
    take(run)._over.set()  # stops the renewals, as if it had died
    file = run / "owner" / "1.json"
    file.write(json.dumps({**json.loads(file.read()), "begun": "1"}))
    messages: list[str] = []
    lease.take(run, messages.append, stale_after=2.0).confirm()
    assert messages == []


def test_the_run_of_a_machine_that_fell_silent_is_taken_over_after_a_while(run: Place) -> None:
    take(run)._over.set()  # stops the renewals, as a power cut does
    move_owner_elsewhere(run)
    messages: list[str] = []
    lease.take(run, messages.append, stale_after=1.0).confirm()
    assert ["on far was the last" in line for line in messages] == [True]
    assert (run / "owner").names() == ["2.json"]


def test_a_run_that_was_given_back_is_taken_at_once(run: Place) -> None:
    take(run).give_back()
    time.sleep(0.5)  # it is not renewed any more
    move_owner_elsewhere(run)
    lease.take(run, _never, stale_after=2.0).confirm()


def test_a_lease_is_taken_at_once_although_the_answer_of_the_bucket_got_lost(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, answers = type(run).create, iter([False])
    monkeypatch.setattr(type(run), "create", lambda *given: create(*given) and next(answers, True))
    lease.take(run, _never, stale_after=2.0).confirm()


def test_a_run_that_is_given_back_while_another_waits_for_it_is_taken(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 600.0)
    held = take(run)
    threading.Timer(0.2, held.give_back).start()
    lease.take(run, lambda _: None, stale_after=5.0).confirm()


def test_a_process_that_stalls_while_others_take_the_run_in_turn_is_refused(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(run).give_back()
    owner, leases = lease._owner, list[Lease]()

    def meanwhile(run: Place, number: int) -> lease.Owner | None:
        found = owner(run, number)
        monkeypatch.setattr(lease, "_owner", owner)
        take(run).give_back()
        leases.append(take(run))
        return found

    monkeypatch.setattr(lease, "_owner", meanwhile)
    with pytest.raises(UserError):
        take(run)
    leases[0].confirm()
    assert (run / "owner").names() == ["3.json"]


def test_a_process_that_was_suspended_too_long_finds_the_run_taken_over(run: Place) -> None:
    with another_process(run) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        taken = take(run)
        time.sleep(0.6)
        os.kill(holder.pid, signal.SIGCONT)
        _, messages = holder.communicate(timeout=60)
        assert f"taken over by process {os.getpid()}" in messages
        assert TakenOver.__name__ in messages
        taken.confirm()
        taken.give_back()


def test_a_run_that_was_moved_is_reported_as_missing(tmp_path: Path) -> None:
    """Nothing is written at its old path."""
    run = tmp_path / "run"
    held = take(place(run))
    held.confirm()
    run.rename(tmp_path / "moved")
    with pytest.raises(TakenOver, match="run no longer exists: it was moved or deleted"):
        held.confirm()
    held.give_back()
    assert [each.name for each in tmp_path.iterdir()] == ["moved"]


def test_a_run_that_was_deleted_and_created_anew_is_left_to_its_new_owner(run: Place) -> None:
    """The file of its new owner has the same number."""
    held = take(run)
    held._over.set()
    held.give_back()
    run.remove()
    with another_process(run) as holder:
        assert not held.is_ours()
        held._over.clear()
        held._renew()
        with pytest.raises(TakenOver, match=f"taken over by process {holder.pid}"):
            held.confirm()
        held.give_back()
        time.sleep(0.5)
        assert holder.poll() is None  # it has confirmed its lease since
        assert json.loads((run / "owner" / "1.json").read())["process"] == holder.pid


def test_a_second_start_that_fails_on_a_full_disk_leaves_the_run_to_its_owner(
    tmp_path: Path,
) -> None:
    held = take(place(tmp_path))
    with no_file_larger_than(0), pytest.raises(OSError, match="File too large"):
        take(place(tmp_path))  # the owner cannot renew its lease either
    time.sleep(0.6)
    held.confirm()


def test_a_run_from_before_leases_can_be_taken_by_anyone(run: Place) -> None:
    (run / "config.json").create("{}")
    take(run).confirm()


def test_a_lease_survives_a_bucket_that_is_unreachable_for_a_while(
    bucket_service: object, bucket_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = take(place(bucket_address))
    with monkeypatch.context() as away:
        away.setattr(type(place(bucket_address)), "names", _refused)
        time.sleep(1.2)
        held.confirm()
        away.setattr(type(held), "_renew", _never)
        held.confirm(renew_if_stale=False)
        silent_since = held._renewed_at
    held.confirm()
    assert held._renewed_at > silent_since


def _never(_: object) -> None:
    raise AssertionError("there is nothing to ask or to say")


def _refused(_: object) -> list[str]:
    raise ConnectionRefusedError
