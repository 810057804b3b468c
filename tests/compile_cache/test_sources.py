"""Whether the sources are still those that a process began with."""

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
    """The package, where it can be edited."""
    copy = tmp_path / "hackmatrix"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    monkeypatch.setattr(sources, "_WRITTEN", sources._written(copy))
    return copy


def test_an_edit_is_noticed_and_not_forgotten_when_it_is_taken_back(package: Path) -> None:
    """What was imported meanwhile is what was edited."""
    assert not sources.has_changed()
    file = package / "game/turn.py"
    before = file.read_text()
    file.write_text(before.replace("a", "b"))
    assert sources.has_changed()
    file.write_text(before)
    assert sources.has_changed()


@pytest.mark.parametrize("change", [Path.unlink, lambda file: file.rename(file.with_name("t.py"))])
def test_a_file_that_is_gone_or_has_another_name_is_noticed(package: Path, change: Any) -> None:
    change(package / "game/turn.py")
    assert sources.has_changed()


def test_a_file_that_is_new_is_noticed(package: Path) -> None:
    (package / "game/new.py").write_text("")
    assert sources.has_changed()


def test_what_an_editor_hides_there_is_none_of_them(package: Path) -> None:
    """Such as a link that leads nowhere, for a file that is being edited."""
    before = sources.source_hash.__wrapped__(package)
    (package / "game/.#turn.py").symlink_to("me@here.1234")
    assert not sources.has_changed()
    assert sources.source_hash.__wrapped__(package) == before


def test_what_was_edited_while_the_package_was_imported_is_noticed(package: Path) -> None:
    """Rules may have been imported before what keeps programs is."""
    edits = "pathlib.Path(game.__file__).with_name('turn.py').touch()"
    asks = "from hackmatrix.compile_cache import sources; sys.exit(sources.has_changed())"
    for work, answer in ("pass", 0), (edits, 1):
        program = f"import pathlib, sys; from hackmatrix import game; {work}; {asks}"
        run = subprocess.run([sys.executable, "-c", program], cwd=package.parent, check=False)
        assert run.returncode == answer
