"""The files of a run in a bucket are copied there, and stay local as long as they cannot be."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.train.config import Config
from hackmatrix.train.runs import atomic_files, bucket, copies, lease, mirror
from hackmatrix.train.runs.directory import Run, create, find, resume, write_down
from hackmatrix.train.runs.lease import TakenOver
from hackmatrix.train.runs.mirror import Mirror
from tests.bucket_service import Service


@pytest.fixture
def run(bucket_address: str, config: Config) -> Run:
    return create(bucket_address, dataclasses.replace(config, run_name="run"))


@contextmanager
def mirrored(run: Run, messages: list[str]) -> Iterator[Mirror]:
    with lease.take(run.place, print) as held, Mirror(run, held, messages.append) as copier:
        yield copier


def write(run: Run, name: str, text: str) -> None:
    file = run.directory / name
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as growing:
        growing.write(text)


def test_files_are_copied_as_they_grow_and_at_the_end_are_only_in_the_bucket(run: Run) -> None:
    messages: list[str] = []
    with mirrored(run, messages) as copier:
        write(run, "metrics.jsonl", "one\n")
        copier.catch_up()
        assert (run.place / "metrics.jsonl").read() == "one\n"
        write(run, "metrics.jsonl", "two\n")
        write(run, "replays/7.html", "a page")
    assert (run.place / "metrics.jsonl").read() == "one\ntwo\n"
    assert (run.place / "replays" / "7.html").read() == "a page"
    assert not run.directory.exists()
    assert messages == []
    assert copier.has_sent_all


def test_a_file_that_is_being_written_is_not_copied(run: Run) -> None:
    half = atomic_files.unfinished(run.evaluation)
    with mirrored(run, []) as copier:
        half.write_text("{")
        assert copier.catch_up() is None
        assert not (run.place / half.name).exists()
        half.replace(run.evaluation)
    assert (run.place / run.evaluation.name).read() == "{"


def test_files_are_copied_in_the_background_but_large_metrics_only_for_saves(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed process has added since is dropped on resume, and then all would be sent."""
    monkeypatch.setattr(mirror, "_EVERY", 0.05)
    monkeypatch.setattr(mirror, "_LARGE_METRICS", len("saved\n"))
    with mirrored(run, []) as copier:
        write(run, "metrics.jsonl", "saved\n")
        assert copier.catch_up() is None
        write(run, "metrics.jsonl", "after it\n")
        write(run, "tensorboard/events", "after it\n")
        deadline = time.monotonic() + 20
        while not (run.place / "tensorboard/events").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (run.place / "metrics.jsonl").read() == "saved\n"
        assert copier.catch_up() is None
        assert (run.place / "metrics.jsonl").read() == "saved\nafter it\n"


@pytest.mark.parametrize("fault", [None, "third"])
def test_only_the_new_part_of_a_large_file_is_sent(
    run: Run, bucket_service: Service, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    monkeypatch.setattr(mirror, "_LARGE", 1000)
    lines = "".join(f"line {each}\n" for each in range(10_000))
    with mirrored(run, []) as copier:
        write(run, "metrics.jsonl", lines)
        copier.catch_up()
        bucket_service.fault = fault
        sent = bucket_service.received
        for each in range(2):
            write(run, "metrics.jsonl", f"{each}\n")
            copier.copy()
        assert bucket_service.received - sent < len(lines) / 2
        bucket_service.fault = None
        assert (run.place / "metrics.jsonl").read() == lines + "0\n1\n"
    assert (run.place / "metrics.jsonl").read() == lines + "0\n1\n"
    assert not [each for each in bucket_service.names() if "/.rest/" in each]


@pytest.mark.parametrize(
    ("request_to", "repeated"),
    [
        ("merge", lambda join: lambda path, parts: join(path, [*parts, parts[-1]])),
        ("rm_file", lambda delete: lambda path: (delete(path), delete(path))),
    ],
)
def test_a_request_that_is_repeated_as_its_answer_got_lost_does_no_harm(
    run: Run, monkeypatch: pytest.MonkeyPatch, request_to: str, repeated: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(mirror, "_LARGE", 1)
    service = bucket.service()
    with mirrored(run, []) as copier:
        write(run, "metrics.jsonl", "one\n")
        copier.copy()
        monkeypatch.setattr(service, request_to, repeated(getattr(service, request_to)))
        write(run, "metrics.jsonl", "two\n")
        copier.copy()
        assert (run.place / "metrics.jsonl").read() == "one\ntwo\n"
    run.place.remove()
    assert run.place.names() == []


def test_a_file_that_is_gone_from_the_bucket_is_copied_whole_the_next_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_LARGE", 1)
    with mirrored(run, []) as copier:
        write(run, "metrics.jsonl", "one\n")
        copier.copy()
        (run.place / "metrics.jsonl").remove()
        write(run, "metrics.jsonl", "two\n")
        with pytest.raises(FileNotFoundError):
            copier.copy()
        copier.copy()
        assert (run.place / "metrics.jsonl").read() == "one\ntwo\n"


def test_a_large_file_that_was_replaced_is_copied_whole(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_LARGE", 1)
    with mirrored(run, []) as copier:
        for text in ("first", "another, longer"):
            atomic_files.write(run.directory / "notes.txt", text)
            copier.copy()
            assert (run.place / "notes.txt").read() == text


def test_a_run_resumed_with_other_settings_keeps_them_and_records_both_starts(run: Run) -> None:
    longer = dataclasses.replace(run.config, total_timesteps=2 * run.config.total_timesteps)
    continued = resume(find_again(run), longer)
    with mirrored(continued, []) as copier:
        write_down(continued)
        copier.catch_up()
    assert find_again(run).config == longer
    assert len(json.loads((run.place / "provenance.json").read())) == 2


def test_a_resumed_run_sends_only_files_that_have_changed(
    run: Run, bucket_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_LARGE", 1000)
    lines = "".join(f"line {each}\n" for each in range(10_000))
    with mirrored(run, []):
        write(run, "metrics.jsonl", lines)
    continued, sent = resume(find_again(run), run.config), bucket_service.received
    with mirrored(continued, []) as copier:
        copier.copy()
        write(continued, "metrics.jsonl", "the next\n")
    assert bucket_service.received - sent < len(lines) / 2
    assert (run.place / "metrics.jsonl").read() == f"{lines}the next\n"
    rewound = resume(find_again(run), run.config)
    with mirrored(rewound, []):
        atomic_files.write(rewound.metrics, lines)  # as a resume drops later lines
        write(rewound, "metrics.jsonl", "another, longer\n")
    assert (run.place / "metrics.jsonl").read() == f"{lines}another, longer\n"


def test_local_files_of_a_killed_process_are_removed_if_they_were_sent(run: Run) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = [f"run-{dead.pid}-{number}123abcd" for number in range(3)]
    of_another = f"run-2-{dead.pid}-0123abcd"
    left = [run.directory.with_name(name) for name in (*names, of_another)]
    sent, unsent, of_wandb, _ = left
    for each in left:
        each.mkdir()
    copies.mark_unsent(unsent)
    (of_wandb / copies.WANDB).mkdir()  # W&B uploads this folder itself
    (of_wandb / "metrics.jsonl").touch()
    resume(find_again(run), run.config)
    assert [each for each in left if not each.exists()] == [sent]
    assert [each.name for each in of_wandb.iterdir()] == [copies.WANDB]
    assert run.directory.exists()  # this process is alive


def find_again(run: Run) -> Run:
    found = find(run.place.parent, run.name)
    assert found
    return found


@pytest.mark.usefixtures("retries_without_waiting")
def test_an_unreachable_bucket_is_reported_and_the_files_stay_local(
    run: Run, bucket_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_EVERY", 0.1)
    messages: list[str] = []
    with mirrored(run, messages) as copier:
        write(run, "metrics.jsonl", "one\n")
        bucket_service.fault = "refuse"
        assert "the files of the run cannot be copied: gs://" in (copier.catch_up() or "")
    bucket_service.fault = None
    assert f"Some files in {run.directory} could not be copied to {run.place}: " in messages[-1]
    assert not copier.has_sent_all
    assert run.metrics.read_text() == "one\n"
    monkeypatch.setattr(copies, "process_started", lambda _: None)  # as once this process has ended
    resume(find_again(run), run.config)
    assert run.metrics.read_text() == "one\n"


def test_each_outage_of_the_bucket_is_reported_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([OSError("away"), OSError("away"), None, OSError("away again")])

    def copy(**_: object) -> None:
        if answer := next(answers, TakenOver("which ends it")):
            raise answer

    monkeypatch.setattr(mirror, "_EVERY", 0.0)
    messages: list[str] = []
    copier = Mirror(run, None, messages.append)
    monkeypatch.setattr(copier, "copy", copy)
    copier._copy_always()
    assert [line.rpartition(": ")[2] for line in messages] == ["away", "away again"]


def test_only_files_that_are_still_to_be_sent_to_wandb_stay_local(run: Run) -> None:
    with mirrored(run, []):
        write(run, "wandb/offline", "a page that was not sent yet")
        write(run, "metrics.jsonl", "{}\n")
        write(run, "tensorboard/events", "")
    assert [*run.directory.rglob("*")] == [
        run.directory / each for each in ("wandb", "wandb/offline")
    ]


def test_a_run_that_another_process_has_taken_over_is_not_written_to(run: Run) -> None:
    messages: list[str] = []
    with mirrored(run, messages):
        write(run, "metrics.jsonl", "ours\n")
        assert (run.place / "owner" / "2.json").create("{}")
    assert "was taken over by another process" in messages[-1]
    assert not (run.place / "metrics.jsonl").exists()
    assert run.metrics.read_text() == "ours\n"


def test_a_run_that_was_deleted_gets_no_more_files(run: Run) -> None:
    messages: list[str] = []
    with mirrored(run, messages) as copier:
        write(run, "metrics.jsonl", "one\n")
        copier.copy()
        run.place.remove()
        write(run, "metrics.jsonl", "two\n")
        with pytest.raises(TakenOver, match="it was moved or deleted during training"):
            copier.copy()
    assert run.place.names() == []
    assert len(messages) == 1


def test_a_run_on_a_disk_that_another_process_has_taken_over_is_not_saved_to(
    tmp_path: Path, config: Config
) -> None:
    run = create(tmp_path, dataclasses.replace(config, run_name="run"))
    with mirrored(run, []) as copier:
        assert (run.place / "owner" / "2.json").create("{}")
        with pytest.raises(TakenOver):
            copier.catch_up()


def test_a_run_on_a_disk_needs_no_copies(tmp_path: Path, config: Config) -> None:
    run = create(tmp_path, dataclasses.replace(config, run_name="run"))
    with mirrored(run, []) as copier:
        write(run, "metrics.jsonl", "one\n")
        copier.catch_up()
    assert run.metrics.read_text() == "one\n"
    assert copier.has_sent_all
