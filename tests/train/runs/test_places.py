"""Places on a disk and in a bucket behave alike."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest
from gcsfs.retry import HttpError

from hackmatrix.errors import UserError
from hackmatrix.train.runs import bucket
from hackmatrix.train.runs.bucket import Bucket, service
from hackmatrix.train.runs.places import Disk, place
from hackmatrix.train.runs.protocol import Place, Unavailable
from tests.bucket_service import BUCKET, Service, used
from tests.train.runs.full_disk import no_file_larger_than


@pytest.fixture(params=["disk", "bucket"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place of either kind."""
    where = tmp_path if request.param == "disk" else request.getfixturevalue("bucket_address")
    return place(where)


def test_a_file_can_be_written_read_and_replaced(there: Place) -> None:
    file = there / "file"
    with pytest.raises(FileNotFoundError):
        file.read()
    assert not file.exists()
    for text in ("one", "two: ü"):
        file.write(text)
        assert file.read() == text
    assert file.exists()
    assert there.names() == ["file"]
    assert abs(file.changed_at() - time.time()) < 60


def test_of_many_that_create_a_file_or_claim_a_directory_one_succeeds(there: Place) -> None:
    def try_all(attempt: Callable[[int], bool]) -> int:
        won: list[bool] = []
        threads = [
            threading.Thread(target=lambda each=each: won.append(attempt(each)))
            for each in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 8
        return sum(won)

    assert try_all(lambda each: (there / "file").create(str(each))) == 1
    assert try_all(lambda _: (there / "directory").claim()) == 1
    assert not (there / "file").create("late")
    assert not (there / "directory").claim()
    assert (there / "directory").names() == []


def test_a_file_that_could_not_be_written_is_not_created(tmp_path: Path) -> None:
    file = place(tmp_path) / "file"
    with no_file_larger_than(0), pytest.raises(OSError, match="File too large"):
        file.create("text")
    assert not file.exists()
    assert file.create("text")


def test_a_path_may_contain_unmatched_brackets(tmp_path: Path) -> None:
    assert place(tmp_path / "a] b[c" / "run").claim()


@pytest.mark.parametrize("name", ["[a run]", "of[a]b", "a\\b", "by\udcff"])
def test_paths_at_which_checkpoints_would_not_be_found_again_are_refused(
    tmp_path: Path, name: str
) -> None:
    there = place(tmp_path / name / "run")
    for attempt in (there.claim, there.try_to_write):
        with pytest.raises(OSError, match="checkpoints cannot be kept at a path that contains"):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = place(tmp_path / "file.json")
    file.write("before")
    with no_file_larger_than(1 << 10), pytest.raises(OSError, match="File too large"):
        file.write("after" * 1000)
    assert file.read() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["file.json"]


def test_a_directory_that_has_files_cannot_be_claimed(there: Place) -> None:
    (there / "run").claim()
    (there / "run" / "config.json").write("{}")
    assert not (there / "run").claim()


def test_a_directory_is_moved_and_removed_with_everything_in_it(there: Place) -> None:
    old = there / "5"
    assert (old / "state" / "array").create("numbers")
    assert (old / "commit_success.txt").create("whole")
    old.move("5.aside-1")
    assert there.names() == ["5.aside-1"]
    new = there / "5.aside-1"
    assert (new / "state" / "array").read() == "numbers"
    assert sorted(new.names()) == ["commit_success.txt", "state"]
    new.remove()
    new.remove()
    assert there.names() == []


def test_files_are_copied_to_a_bucket_and_back(bucket_address: str, tmp_path: Path) -> None:
    here, there, again = tmp_path / "here", Bucket(bucket_address), tmp_path / "again"
    here.write_text("as it was")
    (there / "copy").store(here)
    (there / "folder" / "other").write("stays there")
    again.mkdir()
    there.fetch_files(again)
    assert [(each.name, each.read_text()) for each in again.iterdir()] == [("copy", "as it was")]


def test_a_listing_shows_at_once_what_another_process_has_written(bucket_address: str) -> None:
    first, second = Bucket(bucket_address), Bucket(bucket_address)
    assert first.names() == []
    (second / "late").write("")
    assert first.names() == ["late"]


@pytest.mark.usefixtures("retries_without_waiting")
def test_requests_that_fail_for_a_while_are_retried(
    bucket_service: Service, bucket_address: str
) -> None:
    there = Bucket(bucket_address)
    for fault in ("third", "slow"):
        with bucket_service.failing(fault):
            for number in range(4):
                (there / str(number)).write(fault)
                assert (there / str(number)).read() == fault
    assert sorted(there.names()) == ["0", "1", "2", "3"]


def test_a_bucket_that_refuses_for_some_seconds_is_retried_until_it_accepts(
    bucket_service: Service, bucket_address: str
) -> None:
    there = Bucket(bucket_address) / "file"
    bucket_service.fault, start = "refuse", time.monotonic()
    threading.Timer(3, setattr, (bucket_service, "fault", None)).start()
    there.write("text")
    assert time.monotonic() - start > 2.9
    assert there.read() == "text"


@pytest.mark.usefixtures("retries_without_waiting")
def test_a_bucket_that_does_not_answer_is_reported_after_a_while(
    bucket_service: Service, bucket_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_PATIENCE", 0.1)
    with used(bucket_service), bucket_service.failing("hang"):
        with pytest.raises(Unavailable, match="/file: the service does not answer"):
            (Bucket(bucket_address) / "file").write("text")
        with pytest.raises(TimeoutError):  # as Orbax finds it too
            fsspec.filesystem("gcs", finalize_on_close=True).exists(bucket_address)


def test_a_file_is_synced_to_the_disk_before_it_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, it might be empty after a power cut."""
    calls = Mock(fsync=Mock(wraps=os.fsync), replace=Mock(wraps=os.replace))
    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, getattr(calls, name))
    place(tmp_path / "file").write("text")
    assert [each[0] for each in calls.mock_calls] == ["fsync", "replace"]
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize(("sent", "is_stored"), [(b"a whole file", True), (b"a part", False)])
def test_an_interrupted_upload_leaves_no_file(
    bucket_service: Service, bucket_address: str, sent: bytes, is_stored: bool
) -> None:
    """A run may be killed during an upload. The real service behaves like this one."""
    name = bucket_address.removeprefix(f"{BUCKET}/") + "/file"
    host, port = bucket_service.address.removeprefix("http://").split(":")
    head = f"POST /upload/storage/v1/b/tests/o?uploadType=media&name={name} HTTP/1.1"
    length = len(b"a whole file")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"{head}\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n".encode())
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        client.recv(1 << 16)  # the reply, or nothing
    assert (Bucket(bucket_address) / "file").exists() is is_stored


def test_a_bucket_that_does_not_exist_is_an_error_of_one_line() -> None:
    with pytest.raises(OSError, match="nobody") as failure:
        Bucket("gs://nobody/run/file").read()
    assert "\n" not in str(failure.value)


@pytest.mark.usefixtures("bucket_service")
def test_a_write_to_a_missing_bucket_fails_with_how_to_create_it(tmp_path: Path) -> None:
    there, here = Bucket("gs://nobody/runs/file"), tmp_path / "file"
    here.write_text("")
    message = "^gs://nobody does not exist; create it with: gcloud storage .* create gs://nobody -"
    for write in (lambda: there.write(""), lambda: there.create(""), lambda: there.store(here)):
        with pytest.raises(OSError, match=message) as failure:
            write()
        assert not isinstance(failure.value, Unavailable)
    with pytest.raises(FileNotFoundError, match="lost"):
        there.store(tmp_path / "lost")


def test_missing_credentials_are_reported_with_the_command_to_log_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anonymous = OSError("Anonymous caller does not have storage.objects.get access, 401")
    monkeypatch.setattr(service(), "cat_file", Mock(side_effect=anonymous))
    message = "no Google Cloud credentials; run `gcloud auth application-default login`"
    with pytest.raises(Unavailable, match=message):
        Bucket("gs://bucket/run/file").read()


@pytest.mark.parametrize(
    "refusal",
    [
        HttpError({"code": 400, "message": "Invalid bucket name: 'a..b'"}),
        OSError("Forbidden: https://storage.googleapis.com/storage/v1/b/a..b/o/run"),
    ],
)
def test_a_request_that_is_invalid_or_forbidden_is_not_retried(
    refusal: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service(), "cat_file", Mock(side_effect=refusal))
    with pytest.raises(OSError, match=r"gs://a\.\.b/run/file: (Invalid|Forbidden)") as failure:
        Bucket("gs://a..b/run/file").read()
    assert not isinstance(failure.value, Unavailable)


def test_the_commit_marker_of_a_checkpoint_is_copied_last_and_removed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_service, names = Mock(), ["commit_success.txt", "state/array"]
    fake_service.find.return_value = [f"bucket/5/{name}" for name in names]
    monkeypatch.setattr(bucket, "service", lambda: fake_service)
    Bucket("gs://bucket/5").move("6")
    copied = [call.args[1] for call in fake_service.cp_file.call_args_list]
    removed = [call.args[0] for call in fake_service.rm_file.call_args_list]
    assert copied == ["gs://bucket/6/state/array", "gs://bucket/6/commit_success.txt"]
    assert removed == ["bucket/5/commit_success.txt", "bucket/5/state/array"]


@pytest.mark.parametrize("address", ["gs://", "gs:///runs", "gs://MY-BUCKET/runs", "gs://-a/runs"])
def test_an_address_without_a_valid_bucket_name_is_refused(address: str) -> None:
    with pytest.raises(UserError, match=f"^{address} is not a valid bucket path: use gs://BUCKET/"):
        place(address)


def test_a_path_may_begin_with_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place("~/runs") == Disk(tmp_path / "runs")


@pytest.mark.parametrize("address", ["s3://bucket/runs", "http://host/runs", "gs:/bucket"])
def test_addresses_of_other_kinds_are_refused(address: str) -> None:
    with pytest.raises(UserError, match="paths are not supported: use a directory or gs://"):
        place(address)


def test_the_working_directory_and_its_parent_have_their_real_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run/checkpoints")
    assert (place(".").name, place("..").name) == ("checkpoints", "run")
    assert place("..").parent == place(tmp_path)


@pytest.mark.parametrize("look", [Disk.names, Disk.exists])
def test_a_disk_that_cannot_be_reached_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Disk], object]
) -> None:
    """In newer Pythons, `Path.is_dir` and `Path.exists` return False there."""

    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "is_dir", lambda *_: False)
    monkeypatch.setattr(Path, "exists", lambda *_: False)
    monkeypatch.setattr(os, "stat", stale)
    monkeypatch.setattr(os, "listdir", stale)
    with pytest.raises(OSError, match="Stale file handle"):
        look(Disk(tmp_path))
