"""Runs are found: by their names, by their directories, and the one that was used last."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from configs import default
from hackmatrix.errors import UserError
from hackmatrix.train.config import Config
from hackmatrix.train.config.saved import to_json
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Request
from hackmatrix.train.runs import directory, lease
from hackmatrix.train.runs.directory import Run, create, find
from hackmatrix.train.runs.places import Disk, without_alias
from hackmatrix.train.runs.protocol import Unavailable
from hackmatrix.train.session import run_session
from tests.bucket_service import Service
from tests.train.runs.test_directory import save, suffixed
from tests.train.settings import resolved


def test_a_run_is_found_by_name_and_by_path(tmp_path: Path, config: Config) -> None:
    run = create(tmp_path, config)
    assert find(tmp_path, run.name) == run
    assert find("elsewhere", str(run.directory)) == run


def begun(run: Run, when: float) -> None:
    os.utime(run.directory / "config.json", (when, when))


def test_auto_finds_the_run_that_was_begun_or_saved_last(tmp_path: Path, config: Config) -> None:
    assert find(tmp_path, "auto") is None
    assert find(tmp_path / "nowhere", "auto") is None
    runs = [create(tmp_path, suffixed(config, each)) for each in ("a", "b", "c", "d")]
    for number, run in enumerate(runs):
        begun(run, when=100 * number)
    assert find(tmp_path, "auto") == runs[3]
    save(runs[0], "4096", when=1000)
    save(runs[1], "4096", when=3000)
    save(runs[1], "8192", when=2000)
    save(runs[2], "4096.orbax-checkpoint-tmp", when=9000)
    (tmp_path / "no-run").mkdir()
    assert find(tmp_path, "auto") == runs[1]
    begun(runs[0], when=4000)
    assert find(tmp_path, "auto") == runs[0]


@pytest.mark.usefixtures("patient_at_once")
@pytest.mark.parametrize("which", ["auto", "mine"])
def test_in_a_bucket_that_is_away_there_is_neither_no_run_nor_another_one(
    bucket_address: str, bucket_service: Service, config: Config, which: str
) -> None:
    create(bucket_address, dataclasses.replace(config, run_name="mine"))
    with bucket_service.failing("refuse"), pytest.raises(Unavailable):
        find(bucket_address, which)


def test_auto_finds_no_other_run_than_that_of_the_name_if_there_is_one(
    tmp_path: Path, config: Config
) -> None:
    mine = create(tmp_path, dataclasses.replace(config, run_name="mine"))
    begun(mine, when=100)
    create(tmp_path, config)
    assert find(tmp_path, "auto", "mine") == mine
    assert find(tmp_path, "auto", "yours") is None


def test_auto_looks_at_no_other_run_than_that_of_the_name(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket each look is a request."""
    mine, *_ = (create(tmp_path, dataclasses.replace(config, run_name=name)) for name in "abc")
    looked_at, exists = list[Disk](), Disk.exists

    def exists_when_looked_at(there: Disk) -> bool:
        looked_at.append(there)
        return exists(there)

    monkeypatch.setattr(Disk, "exists", exists_when_looked_at)
    assert find(tmp_path, "auto", "a") == mine
    assert looked_at == [mine.place / "config.json"]


def test_a_run_that_does_not_exist_is_refused_beside_those_that_do(
    tmp_path: Path, config: Config
) -> None:
    with pytest.raises(UserError, match=r"no run 'lost' in \S+$"):
        find(tmp_path, "lost")
    create(tmp_path, dataclasses.replace(config, run_name="mine"))
    with pytest.raises(UserError, match="the newest are mine"):
        find(tmp_path, "lost")
    (tmp_path / "out/exported").mkdir(parents=True)
    (tmp_path / "out/exported/policy.npz").touch()
    with pytest.raises(UserError, match="exported is an exported policy; use it with --policy"):
        find(tmp_path, "out/exported")
    (tmp_path / "lost/checkpoints").mkdir(parents=True)
    for which in ("lost", str(tmp_path / "lost")):
        with pytest.raises(UserError, match=r"lost has no config\.json; the newest are mine"):
            find(tmp_path, which)


def test_a_run_that_cannot_be_read_is_said_in_one_line(tmp_path: Path, config: Config) -> None:
    run, other = create(tmp_path, config), create(tmp_path, config)
    for text in ("{", "{}", "3", "null", "[]", json.dumps({**config.settings(), "lr": -1})):
        (run.directory / "config.json").write_text(text)
        with pytest.raises(UserError) as raised:
            find(tmp_path, run.name)
        assert len(str(raised.value).splitlines()) == 1
    for text in ("[]", "null", '{"checkpoint_dir": 3}'):  # which takes no other run away
        (run.directory / "config.json").write_text(text)
        assert find(tmp_path, "auto") == other


def test_what_only_others_may_look_at_hides_no_run(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh disk has a directory lost+found, which is of the administrator."""
    run, exists = create(tmp_path, config), Disk.exists

    def exists_or_is_hidden(there: Disk) -> bool:
        if "lost+found" in there.path.parts:
            raise PermissionError(13, "Permission denied")
        return exists(there)

    (tmp_path / "lost+found").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    monkeypatch.setattr(Disk, "exists", exists_or_is_hidden)
    assert find(tmp_path, "auto") == run
    with pytest.raises(UserError, match="there is no run 'nobody'"):
        find(tmp_path, "nobody")


@pytest.mark.parametrize(
    "name", ["champion", "policies/champion", "elsewhere/policies/champion.npz"]
)
def test_who_names_an_agent_that_comes_with_the_trainer_in_place_of_a_run_is_told_its_uses(
    tmp_path: Path, name: str
) -> None:
    uses = "policies/champion is an agent, not a run: evaluate, watch, play and export take it"
    with pytest.raises(UserError, match=rf"there is no run .*; {uses}"):
        find(tmp_path, name)
    with pytest.raises(UserError, match=r"there is no run .*; did you mean policies/champion\?"):
        find(tmp_path, name, or_agent=True)


def test_a_run_of_an_older_version_is_found(tmp_path: Path, config: Config) -> None:
    """One that was saved before there were these settings."""
    run = create(tmp_path, config)
    saved = json.loads(to_json(config))
    for name in ("algorithm", "network", "eval_episodes"):
        del saved[name]
    (run.directory / "config.json").write_text(json.dumps(saved))
    assert find(tmp_path, run.name) == run


def test_who_names_a_run_of_several_seeds_is_told_their_names(tmp_path: Path) -> None:
    for name in ("a-seed0", "a-seed1", "b"):
        create(tmp_path, resolved(run_name=name))
    with pytest.raises(UserError, match=r"there is no run 'a' in .*; its seeds are a-seed0, a-see"):
        find(tmp_path, "a")


def test_a_link_to_a_run_beside_it_is_that_run_and_may_lead_to_another_later(
    tmp_path: Path,
) -> None:
    """As `latest`, which people make; what is trained stays the run that was found."""
    a, b = (create(tmp_path, resolved(run_name=name)) for name in ("a", "b"))
    begun(b, when=100)
    latest = tmp_path / "latest"
    latest.symlink_to("a")
    found = find(tmp_path, "auto")
    assert found == find(tmp_path, "latest") == find(tmp_path, str(latest)) == a
    held = lease.take(found.place, print)
    latest.unlink()
    latest.symlink_to("latest")  # which leads nowhere
    assert without_alias(Disk(latest)) == Disk(latest)
    latest.unlink()
    latest.symlink_to(tmp_path / "b")
    held.confirm()
    held.give_back()
    assert not (b.directory / "owner").exists()
    assert find(tmp_path, "latest") == b
    with pytest.raises(UserError, match=r"the newest are b, a$"):
        find(tmp_path, "lost")


def test_a_run_that_lies_on_another_disk_has_the_name_of_its_link(tmp_path: Path) -> None:
    create(tmp_path / "large", resolved(run_name="there"))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/here").symlink_to(tmp_path / "large/there")
    (tmp_path / "runs/latest").symlink_to("here")
    for which in ("auto", "here", "latest"):
        found = find(tmp_path / "runs", which)
        assert found
        assert found.directory == tmp_path / "runs/here"


def test_of_many_runs_the_newest_five_are_named(tmp_path: Path) -> None:
    for number in range(7):
        begun(create(tmp_path, resolved(run_name=f"run{number}")), when=100 * number)
    with pytest.raises(UserError, match=r"the newest are run2, run3, run4, run5, run6$"):
        find(tmp_path, "lost")


def test_a_supervisor_knows_of_a_run_on_a_disk_before_anything_is_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or one that is killed as soon as it has begun would only be in the way of the next start."""
    notes, given = tmp_path / "notes", {"run_name": "mine", "env": "gymnax:CartPole-v1"}
    noted: list[str] = []

    def is_killed(_: Run) -> None:
        noted.append(notes.read_text())
        raise UserError("killed")

    monkeypatch.setattr(directory, "write_down", is_killed)
    request = Request({**default.get_config(), **given}, given, tmp_path)
    with pytest.raises(UserError, match="killed"):
        run_session(request, Mock(), Supervision(notes=notes))
    assert noted == [f"{tmp_path / 'mine'}\n\n"]
