"""Files replace others completely or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from hackmatrix import whole_files
from hackmatrix.train.runs import atomic_files


def test_two_concurrent_writers_of_a_file_each_write_it_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"

    def interrupted() -> Iterator[bytes]:
        yield b"the one, "
        whole_files.write({file: [b"the other"]})
        assert file.read_bytes() == b"the other"
        yield b"whole"

    whole_files.write({file: interrupted()})
    assert file.read_bytes() == b"the one, whole"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "write",
    [lambda path: whole_files.write({path: [b""]}), lambda path: atomic_files.write(path, "")],
)
def test_a_file_that_cannot_be_moved_into_place_is_named_and_not_left_behind(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "policy.jax"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match=r"policy\.jax'$"):
        write(folder)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "text", ["", "null", "[1]", '"a"', "1" * 5000, "[" * 100_000, '{"a":' * 100_000, b"\xff{}"]
)
def test_a_text_that_is_not_a_json_object_is_refused_however_it_is_damaged(
    text: str | bytes,
) -> None:
    with pytest.raises(ValueError, match=r"."):
        whole_files.parsed(text, dict)


def test_none_of_several_files_is_replaced_where_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    whole_files.write({one: [b"before"], other: [b"before"]})
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=[None, full]))
    with pytest.raises(OSError, match=r"No space left on device: .*/other'"):
        whole_files.write({one: [b"after"], other: [b"after"]})
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == {
        one: b"before",
        other: b"before",
    }
