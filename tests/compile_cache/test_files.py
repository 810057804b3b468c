"""Files of a cache: whole, ours, and not too many."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from hackmatrix.compile_cache.files import Files, folder_in

CONTENT = b"a program " * 100


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "cache")


def test_a_file_is_read_as_it_was_written(files: Files) -> None:
    assert files.read("name") is None
    files.write("name", CONTENT)
    assert files.read("name") == CONTENT


@pytest.mark.parametrize("damage", ["cut short", "a bit turned over", "emptied"])
def test_a_damaged_file_reads_as_none_and_can_be_written_again(files: Files, damage: str) -> None:
    files.write("name", CONTENT)
    path = files.directory / "name"
    whole = path.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes({"cut short": whole[:-7], "emptied": b""}.get(damage, flipped))
    assert files.read("name") is None
    files.write("name", CONTENT)
    assert files.read("name") == CONTENT


def test_a_file_of_another_user_is_not_read(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("name", CONTENT)
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert files.read("name") is None


def test_a_file_that_cannot_be_marked_as_used_is_read(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only disk."""
    files.write("name", CONTENT)
    monkeypatch.setattr(os, "utime", Mock(side_effect=OSError(30, "Read-only file system")))
    assert files.read("name") == CONTENT


def test_no_other_user_can_access_the_directory(files: Files) -> None:
    files.write("name", CONTENT)
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700


def test_a_reader_of_a_file_that_is_replaced_reads_the_old_content(files: Files) -> None:
    files.write("name", CONTENT)
    path = files.directory / "name"
    before = path.read_bytes()
    with path.open("rb") as reader:
        files.write("name", b"another")
        assert reader.read() == before
    assert [each.name for each in files.directory.iterdir()] == ["name"]


def test_where_nothing_can_be_written_nothing_is_cached(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = Files(tmp_path / "file" / "cache")
    files.write("name", CONTENT)
    assert files.read("name") is None


def test_another_users_folder_is_left_to_that_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder_in(tmp_path) == tmp_path / "hackmatrix"
    (tmp_path / "hackmatrix").mkdir()
    assert folder_in(tmp_path) == tmp_path / "hackmatrix"
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    assert folder_in(tmp_path) == tmp_path / "hackmatrix-4321"


def test_a_failed_write_leaves_nothing_behind(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(os, "replace", Mock(side_effect=full))
    files.write("name", CONTENT)
    assert list(files.directory.iterdir()) == []


def test_the_least_recently_used_file_is_removed(tmp_path: Path) -> None:
    size = 200  # of each file, which also has a digest
    files = Files(tmp_path, most_bytes=3 * (size + 50))
    for age, name in enumerate(("newest", "older", "oldest")):
        files.write(name, os.urandom(size))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert files.read("oldest")  # which makes it the newest
    files.write("another", os.urandom(size))
    assert {each.name for each in tmp_path.iterdir()} == {"another", "oldest", "newest"}
