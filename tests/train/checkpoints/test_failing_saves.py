"""A run continues when a save fails; an unfinished checkpoint is not used."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import Unavailable
from tests.train.checkpoints.small_state import like, on, state
from tests.train.runs.full_disk import no_file_larger_than


def test_the_run_continues_on_a_full_disk_and_saves_again_once_there_is_space(
    checkpoints: Checkpoints, messages: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    leaf = jax.random.bits(jax.random.key(0), (1 << 18,), jnp.uint32)
    checkpoints.save(1, {"leaf": leaf}, {})
    checkpoints.wait()
    with no_file_larger_than(1 << 16):
        checkpoints.save(2, {"leaf": leaf, "other": leaf + 1}, {})
        checkpoints.wait()
    assert messages == [f"{tmp_path / 'run' / '2'} is not saved: File too large"]
    assert checkpoints.steps() == [1]
    checkpoints.save(2, {"leaf": leaf}, {})
    checkpoints.wait()
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["1", "2"]
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_save_that_failed_in_the_background_is_reported_at_the_next_one(
    checkpoints: Checkpoints, messages: list[str]
) -> None:
    leaf = jax.random.bits(jax.random.key(0), (1 << 18,), jnp.uint32)
    with no_file_larger_than(1 << 16):
        checkpoints.save(1, {"leaf": leaf}, {})
        checkpoints.save(2, {"leaf": jnp.uint32(2)}, {})
        assert len(messages) == 1
        assert "1 is not saved" in messages[0]
        checkpoints.wait()
    assert checkpoints.steps() == [2]


def test_the_run_continues_when_a_save_fails_before_anything_is_copied(
    checkpoints: Checkpoints, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full when Orbax creates its first file."""
    monkeypatch.setattr(type(checkpoints._directory), "try_to_write", lambda _: None)
    checkpoints.save(1, {"leaf": jnp.uint32(1)}, {})
    checkpoints.wait()
    with no_file_larger_than(0):
        checkpoints.save(2, {"leaf": jnp.uint32(2)}, {})
        checkpoints.wait()
    assert [line.partition("is ")[2] for line in messages] == ["not saved: File too large"]
    checkpoints.save(3, {"leaf": jnp.uint32(3)}, {})
    checkpoints.wait()
    assert checkpoints.steps() == [1, 3]


def test_a_full_disk_is_detected_before_the_processes_begin_to_save(
    checkpoints: Checkpoints, messages: list[str]
) -> None:
    with no_file_larger_than(0):
        checkpoints.save(1, {"leaf": jnp.uint32(1)}, {})
    assert checkpoints._saving is None
    assert [line.partition("is ")[2] for line in messages] == ["not saved: File too large"]
    assert checkpoints.steps() == []


def test_the_run_continues_when_no_directory_can_be_created(
    checkpoints: Checkpoints, messages: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run").write_text("a file where the directory should be")
    checkpoints.save(1, state(on(1)), {})
    assert messages == [f"{tmp_path / 'run' / '1'} is not saved: File exists"]
    (tmp_path / "run").unlink()
    checkpoints.save(2, state(on(1)), {})
    checkpoints.wait()
    assert checkpoints.steps() == [2]


def test_directories_not_named_by_a_step_are_left_alone_and_prevent_no_save(
    checkpoints: Checkpoints, messages: list[str], tmp_path: Path
) -> None:
    """They belong to somebody else: the name of a checkpoint is its step and nothing else."""
    others = {tmp_path / "run" / name for name in ("007", "٣", "notes")}
    for each in others:
        each.mkdir(parents=True)
    assert checkpoints.steps() == []
    assert checkpoints.restore_newest(Layout(like(on(1)))) is None
    checkpoints.save(8, {"leaf": jnp.uint32(8)}, {})
    checkpoints.wait()
    assert checkpoints.saved == 8
    assert {*(tmp_path / "run").iterdir()} == {*others, tmp_path / "run/8"}
    assert messages == []


def test_a_checkpoint_that_cannot_be_put_aside_is_named_and_blocks_no_later_save(
    two: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(place: Disk, _: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (two / "2/record/metadata").write_text("")
    monkeypatch.setattr(Disk, "move", refuses)
    checkpoints = Checkpoints(two, keep=3, say=messages.append)
    assert checkpoints.restore_newest(Layout(like(on(1)))) is not None
    messages.clear()
    stays = f"{two / '2'} cannot be renamed: Permission denied"
    checkpoints.save(3, state(on(1), seed=3), {})
    checkpoints.wait()
    assert checkpoints.saved == 3
    checkpoints.save(4, state(on(1), seed=4), {})
    assert messages == [stays]
    checkpoints.wait()
    checkpoints.save(2, state(on(1), seed=2), {})
    assert messages[1:] == [f"{two / '2'} is not saved: {stays}"]
    assert checkpoints.steps() == [2, 3, 4]


def test_a_damaged_checkpoint_is_put_aside_once_its_bucket_is_reachable_again(
    two: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, it would be kept in place of a good one."""
    (two / "2/record/metadata").write_text("")
    checkpoints = Checkpoints(two, keep=2, say=messages.append)
    assert checkpoints.restore_newest(Layout(like(on(1)))) is not None
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "move", Mock(side_effect=Unavailable("it does not answer")))
        checkpoints.put_damaged_aside()
        checkpoints.save(3, state(on(1), seed=3), {})
        assert messages[-1] == f"{two / '3'} is not saved: it does not answer"
    checkpoints.save(4, state(on(1), seed=4), {})
    checkpoints.wait()
    assert checkpoints.steps() == [1, 4]


KILLED_WHILE_SAVING = """
import os, signal, sys, time
from pathlib import Path
import jax, jax.numpy as jnp
from hackmatrix.train.checkpoints.checkpoints import Checkpoints

run = Path(sys.argv[1])
checkpoints = Checkpoints(run, keep=3)
checkpoints.save(1, {"leaf": jnp.uint32(1)}, {})
large = jax.random.bits(jax.random.key(0), (1 << 24,), jnp.uint32)
checkpoints.save(2, {"leaf": large}, {})
while len(os.listdir(run)) < 2:
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_checkpoint_whose_process_was_killed_during_the_save_is_not_used(
    checkpoints: Checkpoints, messages: list[str], tmp_path: Path
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path / "run")],
        env=os.environ | {"XLA_FLAGS": ""},
        timeout=60,
    )
    assert child.returncode == -signal.SIGKILL
    left = [each.name for each in (tmp_path / "run").iterdir()]
    assert "2" not in left, "it had been saved before the process was killed"
    place = like(on(1)).learner.update.sharding
    restored = checkpoints.restore_newest(
        Layout({"leaf": jax.ShapeDtypeStruct((), jnp.uint32, sharding=place)})
    )
    assert restored is not None
    assert restored.step == 1
    assert [line.partition(" or ")[0] for line in messages] == [
        f"{tmp_path / 'run' / '2.orbax-checkpoint-tmp'} is unfinished"
    ]
    checkpoints.save(3, restored.state, {})
    checkpoints.wait()
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["1", "3"]


@pytest.mark.parametrize(
    "details",
    ["[http_response_code='403'] [tensorstore_spec='{}']", "[tensorstore_spec[1]='{}']"],
)
def test_the_reason_is_kept_of_a_chain_of_errors_of_tensorstore(details: str) -> None:
    chain = (
        'Error opening "zarr" driver: Error reading "a/.zarray": Error reading gs://b/c: Forbidden'
    )
    error = ValueError(f"PERMISSION_DENIED: {chain} {details}")
    assert one_line(error) == "PERMISSION_DENIED: Error reading gs://b/c: Forbidden"
