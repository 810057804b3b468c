"""The provenance of a run."""

import dataclasses
import importlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from hackmatrix.train.config import Config
from hackmatrix.train.runs.provenance import changed_modules, edited_modules, git, own_modules


@pytest.mark.parametrize("is_of_another_user", [False, True])
def test_provenance_has_the_revision_and_whether_tracked_files_differ(
    is_of_another_user: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_git(*arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    tmp_path /= os.fsdecode(b"not UTF-8: \xe9")
    (tmp_path / "inside").mkdir(parents=True)
    (tmp_path / "file").write_text("one")
    assert git(tmp_path) is None
    run_git("init")
    assert git(tmp_path) is None
    run_git("add", "file")
    run_git("commit", "-m", "one")
    if is_of_another_user:
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    clean = git(tmp_path)
    assert clean
    assert re.fullmatch("[0-9a-f]{40}", clean["revision"])
    assert clean["dirty"] is False
    (tmp_path / "notes").touch()  # untracked
    assert git(tmp_path) == clean
    (tmp_path / "file").write_text("two")
    assert git(tmp_path) == {"revision": clean["revision"], "dirty": True}
    assert git(tmp_path / "inside") is None  # like a package installed inside a work tree


def test_modules_of_the_users_own_that_have_changed_since_a_start_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    (tmp_path / "hashed_net.py").write_text("Net = 1")
    monkeypatch.syspath_prepend(tmp_path)
    net = importlib.import_module("hashed_net")
    own = dataclasses.replace(config, network="hashed_net:Net")
    starts = [{"own_modules": own_modules(own)}]
    assert starts[0]["own_modules"].keys() == {"hashed_net"}
    assert changed_modules(starts, own) == []
    (tmp_path / "hashed_net.py").write_text("Net = 22")
    assert changed_modules(starts, own) == []  # what is imported has not
    assert edited_modules(own) == ["hashed_net"]
    importlib.reload(net)
    assert changed_modules(starts, own) == ["hashed_net"]
    assert edited_modules(own) == []
    assert changed_modules([{"git": None}], own) == []  # of an earlier revision
    assert changed_modules([], own) == []
    assert own_modules(config) == {}
    (tmp_path / "hashed_net.py").unlink()
    assert own_modules(own) == {}


def test_the_module_that_defines_what_another_only_imports_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    (tmp_path / "defining_net.py").write_text("class Net: pass")
    (tmp_path / "naming_net.py").write_text("from defining_net import Net")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("naming_net")
    own = dataclasses.replace(config, network="naming_net:Net")
    assert own_modules(own).keys() == {"defining_net", "naming_net"}
