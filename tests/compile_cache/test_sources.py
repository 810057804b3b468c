"""Whether the sources are still those that a process started with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.compile_cache import sources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package that can be edited."""
    copy = tmp_path / "hackmatrix"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    monkeypatch.setattr(sources, "_WRITTEN", sources._written(copy))
    return copy


def test_an_edit_is_noticed_and_not_forgotten_when_it_is_undone(package: Path) -> None:
    """What was imported in between is the edited file."""
    assert not sources.has_changed()
    file = package / "game/turn.py"
    before = file.read_text()
    file.write_text(before.replace("a", "b"))
    assert sources.has_changed()
    file.write_text(before)
    assert sources.has_changed()


@pytest.mark.parametrize("change", [Path.unlink, lambda file: file.rename(file.with_name("t.py"))])
def test_a_removed_or_renamed_file_is_noticed(package: Path, change: Any) -> None:
    change(package / "game/turn.py")
    assert sources.has_changed()


def test_a_new_file_is_noticed(package: Path) -> None:
    (package / "game/new.py").write_text("")
    assert sources.has_changed()


def test_hidden_files_of_editors_are_not_sources(package: Path) -> None:
    """Such as a dangling link, which marks a file that is being edited."""
    before = sources.source_hash.__wrapped__(package)
    (package / "game/.#turn.py").symlink_to("me@here.1234")
    assert not sources.has_changed()
    assert sources.source_hash.__wrapped__(package) == before


def test_an_edit_while_the_package_is_imported_is_noticed(package: Path) -> None:
    """Rules may have been imported before the cache of programs is."""
    edits = "pathlib.Path(game.__file__).with_name('turn.py').touch()"
    asks = "from hackmatrix.compile_cache import sources; sys.exit(sources.has_changed())"
    for work, answer in ("pass", 0), (edits, 1):
        program = f"import pathlib, sys; from hackmatrix import game; {work}; {asks}"
        run = subprocess.run([sys.executable, "-c", program], cwd=package.parent, check=False)
        assert run.returncode == answer
