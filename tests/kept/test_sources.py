"""Whether the sources are still those that a process began with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.kept import sources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, where it can be edited."""
    copy = tmp_path / "hackmatrix"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    monkeypatch.setattr(sources, "_WRITTEN", sources._written())
    return copy


def test_an_edit_is_noticed_and_so_is_that_it_was_taken_back(package: Path) -> None:
    assert not sources.has_changed()
    file = package / "game/turn.py"
    before = file.read_text()
    file.write_text(before.replace("a", "b"))
    assert sources.has_changed()
    file.write_text(before)
    assert not sources.has_changed()


@pytest.mark.parametrize("change", [Path.unlink, lambda file: file.rename(file.with_name("t.py"))])
def test_a_file_that_is_gone_or_has_another_name_is_noticed(package: Path, change: Any) -> None:
    change(package / "game/turn.py")
    assert sources.has_changed()


def test_a_file_that_is_new_is_noticed(package: Path) -> None:
    (package / "game/new.py").write_text("")
    assert sources.has_changed()


def test_while_nothing_is_written_no_file_is_read(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_hash", None)
    assert not sources.has_changed()
