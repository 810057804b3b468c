"""Run directories: names are unique, files are complete, and a run can be found again."""

import dataclasses
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import jax
import pytest

from hackmatrix.errors import UserError
from hackmatrix.train.config import Config
from hackmatrix.train.config.rules import FOLDER
from hackmatrix.train.config.saved import to_json
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.directory import (
    Run,
    create,
    discard,
    find,
    resume,
    saved,
    with_local_files,
    write_down,
)
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import WHOLE
from tests.train.runs.full_disk import no_file_larger_than

ROOT = Path(__file__).parents[3]
RUNS_A_PROCESS = 100

# Waits for a file, so that all processes start at once, and skips the slow provenance.
CREATE_MANY = f"""
import sys, time
from pathlib import Path
from hackmatrix.train.config.saved import from_json
from hackmatrix.train.runs import directory
directory.provenance = lambda config: None
workdir, config, ready, go = map(Path, sys.argv[1:])
config = from_json(config.read_text())
ready.touch()
while not go.exists():
    time.sleep(0.001)
for _ in range({RUNS_A_PROCESS}):
    print(directory.create(workdir, config).name)
"""


def save(run: Run, step: str, when: float) -> None:
    """Marks a checkpoint of that step as complete at the time `when`."""
    mark = run.directory / "checkpoints" / step / WHOLE
    mark.parent.mkdir(parents=True)
    mark.touch()
    os.utime(mark, (when, when))


def suffixed(config: Config, suffix: str) -> Config:
    return dataclasses.replace(config, run_suffix=suffix)


def test_run_names_hold_the_date_and_count_up(tmp_path: Path, config: Config) -> None:
    day = f"hackmatrix-jax-{datetime.now():%y%m%d}"
    names = [
        create(tmp_path / "runs", each).name for each in (config, suffixed(config, "x"), config)
    ]
    assert names == [f"{day}-1", f"{day}-2-x", f"{day}-3"]


def test_runs_created_at_the_same_time_get_different_names(tmp_path: Path, config: Config) -> None:
    settings, go = tmp_path / "settings", tmp_path / "go"
    settings.write_text(to_json(config))
    ready = [tmp_path / "ready0", tmp_path / "ready1"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CREATE_MANY, tmp_path / "runs", settings, each, go],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in ready
    ]
    while not all(each.exists() for each in ready):
        assert all(process.poll() is None for process in processes)
    go.touch()
    names = [name for process in processes for name in process.communicate()[0].split()]
    assert len(set(names)) == 2 * RUNS_A_PROCESS
    assert set(names) == {each.name for each in (tmp_path / "runs").iterdir()}


def test_a_run_stores_its_configuration_and_provenance(tmp_path: Path, config: Config) -> None:
    run = create(tmp_path, config)
    assert sorted(each.name for each in run.directory.iterdir()) == [
        "config.json",
        "provenance.json",
    ]
    assert json.loads((run.directory / "config.json").read_text()) == json.loads(to_json(config))
    (start,) = json.loads((run.directory / "provenance.json").read_text())
    assert start["versions"]["jax"] == jax.__version__
    assert start["devices"] == {"platform": "cpu", "kind": "cpu", "count": 8, "processes": 1}
    assert start["command"] == sys.orig_argv
    assert start["python"] == ".".join(map(str, sys.version_info[:3]))
    assert datetime.fromisoformat(start["started"]).tzinfo


def test_a_run_knows_the_paths_of_its_files(tmp_path: Path, config: Config) -> None:
    run = create(tmp_path, dataclasses.replace(config, run_name="one", checkpoint_dir="saved"))
    assert run.directory == tmp_path / "one"
    assert run.metrics == tmp_path / "one/metrics.jsonl"
    assert run.tensorboard == tmp_path / "one/tensorboard"
    assert run.checkpoints == place(tmp_path / "one/saved")


def test_a_name_that_is_taken_is_refused_with_two_alternatives(
    tmp_path: Path, config: Config
) -> None:
    named = dataclasses.replace(config, run_name="mine")
    create(tmp_path, named)
    with pytest.raises(UserError, match=r"--config\.run_name.*--resume=mine"):
        create(tmp_path, named)


def test_a_run_killed_before_it_saved_its_configuration_frees_its_name(
    tmp_path: Path, config: Config
) -> None:
    named = dataclasses.replace(config, run_name="mine")
    (tmp_path / "mine/owner").mkdir(parents=True)
    (tmp_path / "mine/config.new").touch()
    held: list[str] = []
    run = create(tmp_path, named, lambda run: held.append(run.name))
    assert find(tmp_path, "mine") == run
    assert held == ["mine"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes").touch()
    with pytest.raises(UserError, match=r"already exists: .*remove .*: it has no config\.json"):
        create(tmp_path, dataclasses.replace(config, run_name="other"))


def test_a_run_that_another_process_creates_meanwhile_is_left_to_it(
    tmp_path: Path, config: Config
) -> None:
    """Both found the name free; the other process took the lease first and has given it back."""
    named = dataclasses.replace(config, run_name="mine", seed=1)
    other = dataclasses.replace(named, seed=2)
    with pytest.raises(UserError, match="mine already exists"):
        create(tmp_path, named, lambda run: write_down(Run(run.directory, other)))
    assert find(tmp_path, "mine") == Run(tmp_path / "mine", other)


def test_a_workdir_that_cannot_hold_runs_is_reported_in_one_line(
    tmp_path: Path, config: Config
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a disk that is not mounted")
    for workdir in (tmp_path / "file", tmp_path / "link", "s3://bucket/runs"):
        with pytest.raises(UserError) as raised:
            create(workdir, config)
        assert str(workdir).removesuffix("bucket/runs") in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text", ["null", "3", "[", "", '"text"', '{"a": 1}', "[1, null]", "[" * 100_000]
)
def test_damaged_provenance_does_not_stop_a_run(tmp_path: Path, config: Config, text: str) -> None:
    run = create(tmp_path, config)
    (run.directory / "provenance.json").write_text(text)
    write_down(run)
    assert len(json.loads((run.directory / "provenance.json").read_text())) == 1


def test_a_run_that_can_no_longer_be_written_is_refused_in_one_line(
    tmp_path: Path, config: Config
) -> None:
    run = create(tmp_path, config)
    (run.directory / "config.json").unlink()
    (run.directory / "config.json").mkdir()
    with pytest.raises(
        UserError, match=f"^the run {run.directory} cannot be written to: "
    ) as raised:
        write_down(run)
    assert len(str(raised.value).splitlines()) == 1


def test_a_resumed_run_keeps_its_name_and_records_both_starts(
    tmp_path: Path, config: Config
) -> None:
    run = create(tmp_path, config)
    longer = dataclasses.replace(config, total_timesteps=2 * config.total_timesteps)
    assert find(tmp_path, run.name) == run
    continued = resume(run, longer)
    assert find(tmp_path, run.name) == run
    assert saved(continued) == config
    write_down(continued)
    assert saved(continued) == longer
    assert continued == find(tmp_path, run.name) == Run(run.directory, longer)
    assert len(json.loads((run.directory / "provenance.json").read_text())) == 2
    (run.directory / "provenance.json").write_text("")  # as after a power cut
    write_down(continued)
    assert len(json.loads((run.directory / "provenance.json").read_text())) == 1


def test_a_disk_that_is_too_full_for_a_run_from_a_bucket_is_reported_in_one_line(
    bucket_address: str, config: Config
) -> None:
    run = create(bucket_address, config)
    message = f"^the run {run.place} cannot be copied to {run.directory.parent}: File too large$"
    for fetch in (with_local_files, lambda run: resume(run, config)):
        with no_file_larger_than(0), pytest.raises(UserError, match=message):
            fetch(run)
        assert not run.directory.exists()


def test_only_a_run_that_has_saved_nothing_is_discarded(tmp_path: Path, config: Config) -> None:
    empty, used = create(tmp_path, config), create(tmp_path, config)
    save(used, "4096", 0)
    for each in (empty, used):
        discard(each)
    assert list(tmp_path.iterdir()) == [used.directory]


def test_checkpoint_dir_cannot_be_a_name_that_the_run_uses_itself(
    tmp_path: Path, config: Config
) -> None:
    run = create(tmp_path, config)
    own = {each.name for each in (run.metrics, run.tensorboard, run.replays, run.evaluation)}
    for name in {*own, *directory._BEFORE_IT_BEGAN, *run.place.names()}:
        assert not FOLDER.holds(name)
    assert FOLDER.holds(config.checkpoint_dir)


def test_a_run_in_a_working_directory_that_is_gone_is_refused_in_one_line(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UserError, match="cannot create a run in runs: No such file or directory"):
        create(place("runs"), config)
