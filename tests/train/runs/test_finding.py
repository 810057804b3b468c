"""Runs are found by name, by path, or as the run that was used last."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
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
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.directory import Run, create, find
from hackmatrix.train.runs.places import Disk, without_alias
from hackmatrix.train.runs.protocol import WHOLE, Unavailable
from hackmatrix.train.session import run_session
from tests.bucket_service import Service
from tests.train.runs.test_directory import save, suffixed
from tests.train.settings import resolved


def test_a_run_is_found_by_name_and_by_path(tmp_path: Path, config: Config) -> None:
    run = create(tmp_path, config)
    assert find(tmp_path, run.name) == run
    assert find("elsewhere", str(run.directory)) == run


def set_start(run: Run, when: float) -> None:
    os.utime(run.directory / "config.json", (when, when))


def test_auto_finds_the_run_that_was_started_or_saved_last(tmp_path: Path, config: Config) -> None:
    assert find(tmp_path, "auto") is None
    assert find(tmp_path / "nowhere", "auto") is None
    runs = [create(tmp_path, suffixed(config, each)) for each in ("a", "b", "c", "d")]
    for number, run in enumerate(runs):
        set_start(run, when=100 * number)
    assert find(tmp_path, "auto") == runs[3]
    save(runs[0], "4096", when=1000)
    save(runs[1], "4096", when=3000)
    save(runs[1], "8192", when=2000)
    save(runs[2], "4096.orbax-checkpoint-tmp", when=9000)
    (tmp_path / "no-run").mkdir()
    assert find(tmp_path, "auto") == runs[1]
    set_start(runs[0], when=4000)
    assert find(tmp_path, "auto") == runs[0]


@pytest.mark.usefixtures("retries_without_waiting")
@pytest.mark.parametrize("which", ["auto", "mine"])
def test_an_unreachable_bucket_is_not_taken_for_one_without_the_run(
    bucket_address: str, bucket_service: Service, config: Config, which: str
) -> None:
    create(bucket_address, dataclasses.replace(config, run_name="mine"))
    with bucket_service.failing("refuse"), pytest.raises(Unavailable):
        find(bucket_address, which)


def test_auto_with_a_run_name_finds_only_the_run_of_that_name(
    tmp_path: Path, config: Config
) -> None:
    mine = create(tmp_path, dataclasses.replace(config, run_name="mine"))
    set_start(mine, when=100)
    create(tmp_path, config)
    assert find(tmp_path, "auto", "mine") == mine
    assert find(tmp_path, "auto", "yours") is None


def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes what is asked about which file. In a bucket, each is a request."""
    noted: list[str] = []

    def note(name: str, ask: Callable[[Disk], object]) -> None:
        def noting(disk: Disk) -> object:
            noted.append(f"{name} {disk.parent.name}/{disk.name}")
            return ask(disk)

        monkeypatch.setattr(Disk, name, noting)

    note("exists", Disk.exists)
    note("changed_at", Disk.changed_at)
    return noted


def test_auto_with_a_run_name_checks_no_other_run(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, *_ = (create(tmp_path, dataclasses.replace(config, run_name=name)) for name in "abc")
    save(mine, "4096", when=1000)
    checked = checks(monkeypatch)
    assert find(tmp_path, "auto", "a") == mine
    assert checked == ["exists a/config.json"]


def test_auto_checks_only_the_newest_checkpoint_of_a_run(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(tmp_path, dataclasses.replace(config, run_name="a"))
    for step in (1024, 8192, 16384):
        save(run, str(step), when=2 * time.time())
    (run.directory / "checkpoints/16384" / WHOLE).unlink()  # it is being written
    checked = checks(monkeypatch)
    assert find(tmp_path, "auto") == run
    assert [each for each in checked if WHOLE in each] == [
        f"exists 16384/{WHOLE}", f"exists 8192/{WHOLE}", f"changed_at 8192/{WHOLE}",
    ]  # fmt: skip


def test_a_wrong_path_or_address_is_answered_with_the_runs_there(
    tmp_path: Path, bucket_address: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "here", dataclasses.replace(config, run_name="mine"))
    for there in (str(tmp_path / "there"), bucket_address):
        create(there, dataclasses.replace(config, run_name="theirs"))
        with pytest.raises(UserError, match=f"^there is no run 'a' in {there}; the newest are the"):
            find(tmp_path / "here", f"{there}/a")
    with pytest.raises(UserError, match=r"^there is no run 'tests' in gs://tests: gs://tests has"):
        find(tmp_path / "here", "gs://tests")
    monkeypatch.setattr(Bucket, "exists", Mock(side_effect=OSError("Forbidden")))
    with pytest.raises(UserError, match=f"^{bucket_address}/a cannot be read: Forbidden"):
        find(tmp_path / "here", f"{bucket_address}/a")


def test_a_run_that_does_not_exist_is_refused_with_the_names_of_those_that_do(
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


def test_a_run_that_cannot_be_read_is_reported_in_one_line(tmp_path: Path, config: Config) -> None:
    run, other = create(tmp_path, config), create(tmp_path, config)
    for text in ("{", "{}", "3", "null", "[]", json.dumps({**config.settings(), "lr": -1})):
        (run.directory / "config.json").write_text(text)
        with pytest.raises(UserError) as raised:
            find(tmp_path, run.name)
        assert len(str(raised.value).splitlines()) == 1
    for text in ("[]", "null", '{"checkpoint_dir": 3}'):  # which hides no other run
        (run.directory / "config.json").write_text(text)
        assert find(tmp_path, "auto") == other


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"checkpoint_dir": "\\u0000"}', '{"checkpoint_dir": ".."}']
)
def test_auto_states_which_damaged_run_it_leaves_out_and_does_not_begin_anew_in_its_place(
    tmp_path: Path, config: Config, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    damaged = create(tmp_path, config)
    (damaged.directory / "config.json").write_text(text)
    (foreign := tmp_path / "bert").mkdir()
    (foreign / "config.json").write_text('{"model_type": "bert"}')
    told = f"{damaged.directory}/config.json cannot be read: "
    with pytest.raises(UserError, match=f"^{told}.+; move its directory away"):
        find(tmp_path, "auto")
    other = create(tmp_path, config)
    assert find(tmp_path, "auto") == other
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"leaving out a run: {told}")


def test_auto_leaves_out_a_run_whose_checkpoints_cannot_be_listed(
    tmp_path: Path, config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = create(tmp_path, config), create(tmp_path, config)
    (loop := run.directory / "checkpoints").symlink_to("checkpoints")
    assert find(tmp_path, "auto") == other
    assert f"leaving out a run: {loop} cannot be read: " in capsys.readouterr().err
    with pytest.raises(UserError, match=f"^{loop} cannot be read: Too many levels of symbolic"):
        directory.has_checkpoint(run)


def test_a_directory_that_must_not_be_read_hides_no_run(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new disk has a directory lost+found, which only root may read."""
    run, exists = create(tmp_path, config), Disk.exists

    def exists_or_is_hidden(disk: Disk) -> bool:
        if "lost+found" in disk.path.parts:
            raise PermissionError(13, "Permission denied")
        return exists(disk)

    (tmp_path / "lost+found").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    monkeypatch.setattr(Disk, "exists", exists_or_is_hidden)
    assert find(tmp_path, "auto") == run
    with pytest.raises(UserError, match="there is no run 'nobody'"):
        find(tmp_path, "nobody")


@pytest.mark.parametrize(
    "name", ["champion", "policies/champion", "elsewhere/policies/champion.npz"]
)
def test_a_shipped_agent_in_place_of_a_run_is_refused_with_its_uses(
    tmp_path: Path, name: str
) -> None:
    uses = "policies/champion is an agent, not a run: evaluate, watch, play and export take it"
    with pytest.raises(UserError, match=rf"there is no run .*; {uses}"):
        find(tmp_path, name)
    with pytest.raises(UserError, match=r"there is no run .*; did you mean policies/champion\?"):
        find(tmp_path, name, or_agent=True)


def test_a_run_of_an_older_version_is_found(tmp_path: Path, config: Config) -> None:
    """Its configuration lacks settings that were added later."""
    run = create(tmp_path, config)
    saved = json.loads(to_json(config))
    for name in ("algorithm", "network", "eval_episodes"):
        del saved[name]
    (run.directory / "config.json").write_text(json.dumps(saved))
    assert find(tmp_path, run.name) == run


def test_the_common_name_of_several_seeds_is_refused_with_their_names(tmp_path: Path) -> None:
    for name in ("a-seed0", "a-seed1", "b"):
        create(tmp_path, resolved(run_name=name))
    with pytest.raises(UserError, match=r"there is no run 'a' in .*; its seeds are a-seed0, a-see"):
        find(tmp_path, "a")


def test_a_link_to_a_run_beside_it_is_that_run_and_may_be_changed_later(
    tmp_path: Path,
) -> None:
    """Users make links such as `latest`. Training stays in the run that was found."""
    a, b = (create(tmp_path, resolved(run_name=name)) for name in ("a", "b"))
    set_start(b, when=100)
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


def test_a_run_linked_from_another_disk_has_the_name_of_its_link(tmp_path: Path) -> None:
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
        set_start(create(tmp_path, resolved(run_name=f"run{number}")), when=100 * number)
    with pytest.raises(UserError, match=r"the newest are run2, run3, run4, run5, run6$"):
        find(tmp_path, "lost")


def test_a_supervisor_knows_of_a_run_on_a_disk_before_any_of_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a run that is killed right after its creation would block the next start."""
    notes, given = tmp_path / "notes", {"run_name": "mine", "env": "gymnax:CartPole-v1"}
    noted: list[str] = []

    def fails_as_if_killed(_: Run) -> None:
        noted.append(notes.read_text())
        raise UserError("killed")

    monkeypatch.setattr(directory, "write_down", fails_as_if_killed)
    request = Request({**default.get_config(), **given}, given, tmp_path)
    with pytest.raises(UserError, match="killed"):
        run_session(request, Mock(), Supervision(notes=notes))
    assert noted == [f"{tmp_path / 'mine'}\n\n"]
