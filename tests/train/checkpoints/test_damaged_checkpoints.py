"""A damaged checkpoint is detected, reported and put aside, and the one before it is used."""

import errno
import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hackmatrix.errors import UserError
from hackmatrix.train.checkpoints import inventory
from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from hackmatrix.train.checkpoints.manifest import Manifest
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.checkpoints.scores import SCORE
from hackmatrix.train.runs.places import Disk
from tests.train.checkpoints.small_state import bits, like, on, state

FLIPS = 50


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def arrays_of(step: Path) -> Path:
    """The largest of the files with the data of the arrays."""
    return max(step.glob("state/ocdbt.process_0/d/*"), key=lambda path: path.stat().st_size)


def flip(path: Path, position: int, mask: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


def truncate(step: Path) -> None:
    path = arrays_of(step)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty_the_record(step: Path) -> None:
    (step / "record/metadata").write_text("")


def change_a_digest(step: Path) -> None:
    path = step / "record/metadata"
    record = json.loads(path.read_text())
    record["digests"]["learner/update"] += 1
    path.write_text(json.dumps(record))


def remove_the_commit_marker(step: Path) -> None:
    (step / "commit_success.txt").unlink()


def remove_an_array_file(step: Path) -> None:
    arrays_of(step).unlink()


def remove_everything(step: Path) -> None:
    shutil.rmtree(step)
    step.mkdir()


def put_the_arrays_of_another_there(step: Path) -> None:
    shutil.rmtree(step / "state")
    shutil.copytree(step.parent / "1/state", step / "state")


DAMAGES = (
    truncate,
    empty_the_record,
    change_a_digest,
    remove_the_commit_marker,
    remove_an_array_file,
    remove_everything,
    put_the_arrays_of_another_there,
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_where_the_newest_is_damaged_the_one_before_is_used(
    two: Path, messages: list[str], damage: Callable[[Path], None]
) -> None:
    damage(two / "2")
    before = {path: path.read_bytes() for path in files(two)}
    restored = Checkpoints(two, keep=3, say=messages.append).restore_newest(Layout(like(on(2))))
    assert restored is not None
    assert (restored.step, restored.metadata) == (1, {"update": 1})
    assert bits(restored.state) == bits(state(on(2), seed=1))
    assert len(messages) == 1
    assert f"{two / '2'} is damaged" in messages[0]
    assert "\n" not in messages[0]
    assert {path: path.read_bytes() for path in files(two)} == before


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: json.loads('{"a": \0}'), "Expecting value: line 1 column 7 (char 6)"),
        (lambda: json.loads("{}")["digests"], "KeyError 'digests'"),
        (lambda: next(iter(())), "StopIteration"),
    ],
)
def test_the_message_tells_what_is_wrong(read: Callable[[], object], message: str) -> None:
    """Not only "6", which the scanner of JSON raises first, or only the name of what is missing."""
    with pytest.raises((ValueError, KeyError, StopIteration)) as failed:
        read()
    assert one_line(failed.value) == message


@pytest.mark.parametrize("which", ["restore_newest", "restore_best"])
def test_a_checkpoint_that_training_replaces_while_it_is_read_is_not_damaged(
    two: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    reader = Checkpoints(two, keep=3, say=messages.append)
    read = reader._read

    def read_late(step: int) -> Manifest:
        if step == 2:
            training.save(3, state(on(1), seed=3), {"update": 3, SCORE: 3.0})
            training.wait()
            shutil.rmtree(two / "2", ignore_errors=True)
        return read(step)

    training = Checkpoints(two, keep=1)
    shutil.rmtree(two / "2")
    training.save(2, state(on(1), seed=2), {"update": 2, SCORE: 2.0})
    training.wait()
    monkeypatch.setattr(reader, "_read", read_late)
    restored = getattr(reader, which)(Layout(like(on(1))))
    assert restored is not None
    assert (restored.step, restored.metadata["update"]) == (3, 3)
    assert messages == []


def test_where_all_are_damaged_the_run_does_not_start_from_scratch(
    two: Path, messages: list[str]
) -> None:
    for step in ("1", "2"):
        truncate(two / step)
    checkpoints = Checkpoints(two, keep=3, say=messages.append)
    with pytest.raises(UserError, match=r"all checkpoints in .* are damaged") as error:
        checkpoints.restore_newest(Layout(like(on(1))))
    assert "\n" not in str(error.value)
    assert len(messages) == 2
    assert checkpoints.steps() == [1, 2]


def test_a_flipped_byte_is_always_noticed(two: Path, messages: list[str]) -> None:
    """Flips fifty bytes, one at a time: one in each file, the others in the arrays' largest file.

    Restoring needs neither the time of the save, nor the sharding, nor the last part of the arrays'
    file: a flip there is reported, and the restored state is still the saved one.
    """
    shutil.rmtree(two / "1")
    step, saved, draw = two / "2", bits(state(on(1), seed=2)), random.Random(0)
    paths = files(step)
    paths += [arrays_of(step)] * (FLIPS - len(paths))
    checkpoints = Checkpoints(two, keep=3, say=messages.append)
    refused, harmless = Counter[str](), Counter[str]()
    for path in paths:
        name = str(path.relative_to(step))
        position, mask = draw.randrange(path.stat().st_size), draw.randrange(1, 256)
        flip(path, position, mask)
        messages.clear()
        try:
            restored = checkpoints.restore_newest(Layout(like(on(1))))
        except UserError:
            refused[name] += 1
            assert "is damaged" in messages[0]
        else:
            harmless[name] += 1
            # A flip in the inventory is one in the name or the hash of any of the files.
            changed = r"\S+( and \S+)?" if name == inventory.NAME else re.escape(name)
            words = rf"is used because its arrays are intact, but {changed} changed"
            assert re.search(words, messages[0])
            assert restored is not None
            assert bits(restored.state) == saved, f"byte {position} of {path}, mask {mask}"
            assert restored.metadata == {"update": 2}
        assert len(messages) == 1
        flip(path, position, mask)
    print(f"refused: {refused}, harmless: {harmless}")
    assert refused.total() + harmless.total() == FLIPS
    assert refused[str(arrays_of(step).relative_to(step))]
    messages.clear()
    whole = checkpoints.restore_newest(Layout(like(on(1))))  # all flips are undone
    assert whole is not None
    assert messages == []


def test_a_damaged_checkpoint_is_put_aside_when_its_step_is_saved_again(
    two: Path, messages: list[str]
) -> None:
    truncate(two / "2")
    checkpoints = Checkpoints(two, keep=1, say=messages.append)
    assert checkpoints.restore_newest(Layout(like(on(2)))) is not None
    checkpoints.save(2, state(on(2), seed=22), {"update": 22})
    checkpoints.save(3, state(on(2), seed=3), {"update": 3})
    checkpoints.wait()
    assert sorted(each.name for each in two.iterdir()) == ["2.aside-1", "3"]
    assert messages[1:] == [f"{two / '2'} was renamed to 2.aside-1"]


def test_a_best_checkpoint_that_is_damaged_is_not_replaced_by_another(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step, score in ((1, 0.5), (2, 0.25), (3, 0.0)):
        checkpoints.save(step, state(on(2), seed=step), {SCORE: score})
    checkpoints.wait()
    put_the_arrays_of_another_there(tmp_path / "2")
    truncate(tmp_path / "1")
    empty_the_record(tmp_path / "3")
    with pytest.raises(UserError, match=f"{tmp_path / '1'} is damaged"):
        checkpoints.restore_best(Layout(like(on(2))))
    empty_the_record(tmp_path / "1")  # so its score is lost
    with pytest.raises(UserError, match=f"{tmp_path / '2'} is damaged"):
        checkpoints.restore_best(Layout(like(on(2))))


def test_a_checkpoint_without_its_record_is_not_kept_as_a_possible_best(
    two: Path, messages: list[str]
) -> None:
    shutil.rmtree(two / "1/record")
    checkpoints = Checkpoints(two, keep=1, say=messages.append)
    assert checkpoints.best() is None
    checkpoints.save(3, state(on(1), seed=3), {})
    checkpoints.wait()
    assert checkpoints.steps() == [3]
    assert messages == []


def test_a_best_checkpoint_that_cannot_be_read_for_a_while_is_kept(
    tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale mount, for example, is no damage."""
    checkpoints = Checkpoints(tmp_path, keep=1, say=messages.append)
    for step, score in ((1, 0.5), (2, 0.25)):
        checkpoints.save(step, state(on(1), seed=step), {SCORE: score})
    checkpoints.wait()
    read = Disk.read

    def read_unless_stale(place: Disk) -> str:
        if place.path.parts[-3:-1] == ("1", "record"):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return read(place)

    with monkeypatch.context() as while_it_is_stale:
        while_it_is_stale.setattr(Disk, "read", read_unless_stale)
        assert checkpoints.best() == (0.25, 2, None)
        checkpoints.save(3, state(on(1), seed=3), {})
        checkpoints.wait()
    why = "may be the best, but its score cannot be read: Stale file handle"
    assert messages == [f"{tmp_path / '1'} {why}"]
    assert checkpoints.best() == (0.5, 1, None)
    checkpoints.save(4, state(on(1), seed=4), {})
    checkpoints.wait()
    assert checkpoints.steps() == [1, 4]


@pytest.mark.parametrize("name", ["_CHECKPOINT_METADATA", "inventory.json"])
def test_a_file_that_restoring_does_not_need_may_be_unreadable(
    two: Path, messages: list[str], name: str
) -> None:
    (two / "2" / name).unlink()
    (two / "2" / name).symlink_to("/proc/self/mem")  # reading it is an I/O error
    restored = Checkpoints(two, keep=3, say=messages.append).restore_newest(Layout(like(on(1))))
    assert restored is not None
    assert restored.step == 2
    (line,) = messages
    assert f"is used because its arrays are intact, but {name} changed" in line


@pytest.mark.parametrize("text", ["null", "7", "true", "[1]", "[" * 100_000])
def test_an_inventory_of_another_form_counts_as_changed(
    two: Path, messages: list[str], text: str
) -> None:
    (two / "2/inventory.json").write_text(text)
    restored = Checkpoints(two, keep=3, say=messages.append).restore_newest(Layout(like(on(1))))
    assert restored is not None
    (line,) = messages
    assert "is used because its arrays are intact, but inventory.json changed" in line


def test_damaged_checkpoints_are_not_kept_in_place_of_good_ones(two: Path) -> None:
    truncate(two / "2")
    checkpoints = Checkpoints(two, keep=2)
    assert checkpoints.restore_newest(Layout(like(on(2)))) is not None
    checkpoints.save(4, state(on(2), seed=4), {})
    checkpoints.wait()
    assert checkpoints.steps() == [1, 4]
    assert (two / "2.aside-1").is_dir()
