"""The provenance of a run."""

import re
import subprocess
from pathlib import Path

from hackmatrix.train.runs.provenance import git


def test_provenance_has_the_revision_and_whether_tracked_files_differ(tmp_path: Path) -> None:
    def run_git(*arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "inside").mkdir()
    (tmp_path / "file").write_text("one")
    assert git(tmp_path) is None
    run_git("init")
    assert git(tmp_path) is None
    run_git("add", "file")
    run_git("commit", "-m", "one")
    clean = git(tmp_path)
    assert clean
    assert re.fullmatch("[0-9a-f]{40}", clean["revision"])
    assert clean["dirty"] is False
    (tmp_path / "notes").touch()  # untracked
    assert git(tmp_path) == clean
    (tmp_path / "file").write_text("two")
    assert git(tmp_path) == {"revision": clean["revision"], "dirty": True}
    assert git(tmp_path / "inside") is None  # like a package installed inside a work tree
