"""Checkpoints come back bit for bit on any mesh, or not at all."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.train.checkpoints import CheckpointError, Checkpoints, Incompatible
from tests.train.small_state import ENVS, bits, like, on, state

FLIPS = 50


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def checkpoints(tmp_path: Path, said: list[str]) -> Checkpoints:
    return Checkpoints(tmp_path / "run", keep=3, say=said.append)


@pytest.fixture(scope="session")
def two_saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints 1 and 2, of seeds 1 and 2."""
    directory = tmp_path_factory.mktemp("saved")
    writer = Checkpoints(directory, keep=3)
    for step in (1, 2):
        writer.save(step, state(on(8), seed=step), {"update": step})
    writer.close()
    return directory


@pytest.fixture
def two(two_saved: Path, tmp_path: Path) -> Path:
    """A copy of them to damage."""
    return Path(shutil.copytree(two_saved, tmp_path / "run"))


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def arrays_of(step: Path) -> Path:
    """The largest of the files that hold what the arrays hold."""
    return max(step.glob("state/ocdbt.process_0/d/*"), key=lambda path: path.stat().st_size)


def flip(path: Path, position: int, mask: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


def place_of(leaf: jax.Array | jax.ShapeDtypeStruct) -> object:
    return leaf.sharding


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The disk is full for this process: a real write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("saved_on", "restored_on"), [(8, 8), (8, 2), (8, 1), (1, 8)])
def test_what_is_restored_on_another_mesh_is_what_was_saved(
    checkpoints: Checkpoints, said: list[str], saved_on: int, restored_on: int
) -> None:
    saved, wanted = state(on(saved_on)), like(on(restored_on))
    checkpoints.save(4096, saved, {"update": 7, "note": "é"})
    restored = checkpoints.restore_newest(wanted)
    assert restored is not None
    assert (restored.step, restored.metadata) == (4096, {"update": 7, "note": "é"})
    assert bits(restored.state) == bits(saved)
    assert jax.tree.map(place_of, restored.state) == jax.tree.map(place_of, wanted)
    assert checkpoints.metadata(4096) == restored.metadata
    assert said == []


def test_where_nothing_was_saved_nothing_is_restored(checkpoints: Checkpoints) -> None:
    assert checkpoints.steps() == []
    assert checkpoints.restore_newest(like(on(1))) is None


def test_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (5_000_000_000, 5_000_000_001, 5_000_000_010):  # more than 32 bits can count
        checkpoints.save(step, state(on(2)), {})
    checkpoints.close()
    assert checkpoints.steps() == [5_000_000_001, 5_000_000_010]


def test_a_state_that_is_donated_right_after_is_saved_as_it_was(checkpoints: Checkpoints) -> None:
    @jax.jit
    def make() -> jax.Array:
        return jnp.arange(1 << 21, dtype=jnp.float32).reshape(8, -1)

    overwrite = jax.jit(lambda leaf: -leaf - 1, donate_argnums=0)
    place = like(on(8)).players["numbers"].sharding
    leaf = jax.device_put(make(), place)
    checkpoints.save(1, {"leaf": leaf}, {})
    for _ in range(20):
        leaf = overwrite(leaf)
    jax.block_until_ready(leaf)
    shape = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)
    restored = checkpoints.restore_newest({"leaf": shape})
    assert restored is not None
    np.testing.assert_array_equal(restored.state["leaf"], make())


def test_another_network_is_refused_with_both_shapes(two: Path) -> None:
    with pytest.raises(Incompatible) as refusal:
        Checkpoints(two, keep=3).restore_newest(like(on(1), hidden=7))
    lines = refusal.value.lines
    kernel = (
        "params/hidden_0/kernel: checkpoint has (17, 200) float32, this run has (17, 7) float32"
    )
    assert f"learner/{kernel}" in lines
    assert len(lines) == 6  # kernel, bias, and two moments of each
    assert str(refusal.value).splitlines()[1:] == lines


def test_another_type_is_refused_and_not_cast(two: Path) -> None:
    wanted = like(on(1))
    over = wanted.players["over"]
    number = jax.ShapeDtypeStruct(over.shape, jnp.uint8, sharding=over.sharding)
    with pytest.raises(Incompatible) as refusal:
        Checkpoints(two, keep=3).restore_newest(
            wanted.replace(players=wanted.players | {"over": number})
        )
    assert refusal.value.lines == [
        "players/over: checkpoint has (16,) bool, this run has (16,) uint8"
    ]


def test_a_layer_more_or_less_is_refused(two: Path) -> None:
    wanted = like(on(1))
    params = wanted.learner.params
    fewer = {"hidden_0": params["hidden_0"]}
    more = params | {"hidden_1": params["hidden_0"]}
    for changed, line in (
        (fewer, "head/bias: checkpoint has (200,) bfloat16, this run has none"),
        (more, "hidden_1/kernel: checkpoint has none, this run has (17, 200) float32"),
    ):
        asked = wanted.replace(learner=wanted.learner.replace(params=changed))
        with pytest.raises(Incompatible) as refusal:
            Checkpoints(two, keep=3).restore_newest(asked)
        assert refusal.value.lines == [f"learner/params/{line}"]


def test_what_is_not_asked_for_is_not_read(two: Path) -> None:
    wanted = like(on(2)).replace(players=None)
    wanted = wanted.replace(learner=wanted.learner.replace(optimiser=None))
    restored = Checkpoints(two, keep=3).restore_newest(wanted)
    assert restored is not None
    assert restored.state.players is None
    assert restored.state.learner.optimiser is None
    assert bits(restored.state.learner.params) == bits(state(on(1), seed=2).learner.params)


def test_a_part_is_accepted_where_the_rest_does_not_fit(two: Path) -> None:
    checkpoints = Checkpoints(two, keep=3)
    wanted = like(on(2), envs=2 * ENVS)
    learner = wanted.replace(players=None)
    with pytest.raises(Incompatible, match="players/boards"):
        checkpoints.restore_newest(wanted)
    part = checkpoints.restore_newest(wanted, accept=learner)
    whole = checkpoints.restore_newest(like(on(2)), accept=learner)
    assert part is not None
    assert whole is not None
    assert part.state.players is None
    assert whole.state.players is not None
    assert bits(part.state.learner) == bits(whole.state.learner)


def test_another_network_is_refused_though_a_part_would_be_accepted(two: Path) -> None:
    wanted = like(on(1), envs=2 * ENVS, hidden=7)
    with pytest.raises(Incompatible) as refusal:
        Checkpoints(two, keep=3).restore_newest(wanted, accept=wanted.replace(players=None))
    assert all(line.startswith("learner/") for line in refusal.value.lines)


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
    two: Path, said: list[str], damage: Callable[[Path], None]
) -> None:
    damage(two / "2")
    before = {path: path.read_bytes() for path in files(two)}
    restored = Checkpoints(two, keep=3, say=said.append).restore_newest(like(on(2)))
    assert restored is not None
    assert (restored.step, restored.metadata) == (1, {"update": 1})
    assert bits(restored.state) == bits(state(on(2), seed=1))
    assert len(said) == 1
    assert f"{two / '2'} is damaged" in said[0]
    assert "\n" not in said[0]
    assert {path: path.read_bytes() for path in files(two)} == before


def test_where_all_are_damaged_the_run_does_not_begin_anew(two: Path, said: list[str]) -> None:
    for step in ("1", "2"):
        truncate(two / step)
    checkpoints = Checkpoints(two, keep=3, say=said.append)
    with pytest.raises(CheckpointError, match=r"all checkpoints in .* are damaged") as error:
        checkpoints.restore_newest(like(on(1)))
    assert "\n" not in str(error.value)
    assert len(said) == 2
    assert checkpoints.steps() == [1, 2]


def test_a_flipped_byte_is_always_noticed(two: Path, said: list[str]) -> None:
    """Fifty bytes, one at a time: one of each file, the others of the files that hold the arrays.

    Nobody reads when a checkpoint was saved, how it was spread over devices, or the last part of
    the arrays' file: where a flip is there, it is said, and what comes back is what was saved.
    """
    shutil.rmtree(two / "1")
    step, saved, draw = two / "2", bits(state(on(1), seed=2)), random.Random(0)
    paths = files(step)
    paths += [arrays_of(step)] * (FLIPS - len(paths))
    checkpoints = Checkpoints(two, keep=3, say=said.append)
    refused, harmless = Counter[str](), Counter[str]()
    for path in paths:
        name = str(path.relative_to(step))
        position, mask = draw.randrange(path.stat().st_size), draw.randrange(1, 256)
        flip(path, position, mask)
        said.clear()
        try:
            restored = checkpoints.restore_newest(like(on(1)))
        except CheckpointError:
            refused[name] += 1
            assert "is damaged" in said[0]
        else:
            harmless[name] += 1
            assert f"is used, as its arrays are whole, but {name} changed" in said[0]
            assert restored is not None
            assert bits(restored.state) == saved, f"byte {position} of {path}, mask {mask}"
            assert restored.metadata == {"update": 2}
        assert len(said) == 1
        flip(path, position, mask)
    print(f"refused: {refused}, harmless: {harmless}")
    assert refused.total() + harmless.total() == FLIPS
    assert refused[str(arrays_of(step).relative_to(step))]
    said.clear()
    assert checkpoints.restore_newest(like(on(1))) is not None  # as nothing is flipped any more
    assert said == []


def test_a_damaged_checkpoint_is_put_aside_when_its_step_is_saved_again(
    two: Path, said: list[str]
) -> None:
    truncate(two / "2")
    checkpoints = Checkpoints(two, keep=1, say=said.append)
    assert checkpoints.restore_newest(like(on(2))) is not None
    checkpoints.save(2, state(on(2), seed=22), {"update": 22})
    checkpoints.save(3, state(on(2), seed=3), {"update": 3})
    checkpoints.close()
    assert sorted(each.name for each in two.iterdir()) == ["2.aside-1", "3"]
    assert said[1:] == [f"{two / '2'} is kept as 2.aside-1"]


def test_damaged_checkpoints_are_not_kept_in_place_of_good_ones(two: Path) -> None:
    truncate(two / "2")
    checkpoints = Checkpoints(two, keep=2)
    assert checkpoints.restore_newest(like(on(2))) is not None
    checkpoints.save(4, state(on(2), seed=4), {})
    checkpoints.close()
    assert checkpoints.steps() == [1, 4]
    assert (two / "2.aside-1").is_dir()


def test_a_step_that_is_saved_already_is_not_saved_again(two: Path, said: list[str]) -> None:
    checkpoints = Checkpoints(two, keep=3, say=said.append)
    restored = checkpoints.restore_newest(like(on(2)))
    assert restored is not None
    before = (two / "2").stat().st_mtime_ns
    checkpoints.save(2, restored.state, {})
    checkpoints.save(3, restored.state, {})
    checkpoints.save(3, restored.state, {})
    checkpoints.close()
    assert (two / "2").stat().st_mtime_ns == before
    assert sorted(each.name for each in two.iterdir()) == ["1", "2", "3"]
    assert said == []


def test_the_run_goes_on_when_the_disk_is_full_and_saves_again_when_it_is_not(
    checkpoints: Checkpoints, said: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    leaf = jax.random.bits(jax.random.key(0), (1 << 18,), jnp.uint32)
    checkpoints.save(1, {"leaf": leaf}, {})
    checkpoints.wait()
    with no_file_larger_than(1 << 16):
        checkpoints.save(2, {"leaf": leaf, "other": leaf + 1}, {})
        checkpoints.wait()
    assert said == [f"{tmp_path / 'run' / '2'} is not saved: File too large"]
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["1"]
    checkpoints.save(2, {"leaf": leaf}, {})
    checkpoints.close()
    assert checkpoints.steps() == [1, 2]
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_save_that_failed_in_the_background_is_told_at_the_next_one(
    checkpoints: Checkpoints, said: list[str]
) -> None:
    leaf = jax.random.bits(jax.random.key(0), (1 << 18,), jnp.uint32)
    with no_file_larger_than(1 << 16):
        checkpoints.save(1, {"leaf": leaf}, {})
        checkpoints.save(2, {"leaf": jnp.uint32(2)}, {})
        assert len(said) == 1
        assert "1 is not saved" in said[0]
        checkpoints.close()
    assert checkpoints.steps() == [2]


def test_the_run_goes_on_where_no_directory_can_be_made(
    checkpoints: Checkpoints, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run").write_text("a file where the directory should be")
    checkpoints.save(1, state(on(1)), {})
    assert said == [f"{tmp_path / 'run' / '1'} is not saved: File exists"]
    (tmp_path / "run").unlink()
    checkpoints.save(2, state(on(1)), {})
    checkpoints.close()
    assert checkpoints.steps() == [2]


KILLED_WHILE_SAVING = """
import os, signal, sys
from pathlib import Path
import jax, jax.numpy as jnp
from hackmatrix.train.checkpoints import Checkpoints

checkpoints = Checkpoints(Path(sys.argv[1]), keep=3)
checkpoints.save(1, {"leaf": jnp.uint32(1)}, {})
large = jax.random.bits(jax.random.key(0), (1 << 24,), jnp.uint32)
checkpoints.save(2, {"leaf": large}, {})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_being_saved_when_the_process_was_killed_is_not_used(
    checkpoints: Checkpoints, said: list[str], tmp_path: Path
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path / "run")],
        env=os.environ | {"XLA_FLAGS": ""},
        timeout=60,
    )
    assert child.returncode == -signal.SIGKILL
    left = [each.name for each in (tmp_path / "run").iterdir()]
    assert len(left) == 2, "it had been saved before the process was killed"
    place = like(on(1)).learner.update.sharding
    restored = checkpoints.restore_newest(
        {"leaf": jax.ShapeDtypeStruct((), jnp.uint32, sharding=place)}
    )
    assert restored is not None
    assert restored.step == 1
    assert [line.split(",")[0] for line in said] == [
        f"{tmp_path / 'run' / '2.orbax-checkpoint-tmp'} was never finished"
    ]
    checkpoints.save(3, restored.state, {})
    checkpoints.close()
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["1", "3"]
