"""Checkpoints are restored bit for bit on any mesh, or refused."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh as meshes
from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from hackmatrix.train.checkpoints.scores import SCORE, Best
from tests.train.checkpoints.small_state import ENVS, State, bits, like, on, state


def place_of(leaf: jax.Array | jax.ShapeDtypeStruct) -> object:
    return leaf.sharding


@pytest.mark.parametrize(("saved_on", "restored_on"), [(8, 8), (8, 2), (8, 1), (1, 8)])
def test_a_state_is_restored_as_it_was_saved_on_any_mesh(
    checkpoints: Checkpoints, messages: list[str], saved_on: int, restored_on: int
) -> None:
    saved, wanted = state(on(saved_on)), like(on(restored_on))
    checkpoints.save(4096, saved, {"update": 7, "note": "é"})
    restored = checkpoints.restore_newest(Layout(wanted))
    assert restored is not None
    assert (restored.step, restored.metadata) == (4096, {"update": 7, "note": "é"})
    assert bits(restored.state) == bits(saved)
    assert jax.tree.map(place_of, restored.state) == jax.tree.map(place_of, wanted)
    assert messages == []


def test_where_nothing_was_saved_nothing_is_restored(checkpoints: Checkpoints) -> None:
    assert checkpoints.steps() == []
    assert checkpoints.restore_newest(Layout(like(on(1)))) is None


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (5_000_000_000, 5_000_000_001, 5_000_000_010):  # more than 32 bits can count
        checkpoints.save(step, state(on(2)), {})
    checkpoints.wait()
    assert checkpoints.steps() == [5_000_000_001, 5_000_000_010]


def test_the_checkpoint_with_the_highest_score_is_kept_too(tmp_path: Path) -> None:
    """A score of NaN is neither better nor worse than others."""
    checkpoints, nan = Checkpoints(tmp_path, keep=2), float("nan")
    metadata = [{}, {SCORE: 0.25}, {SCORE: 0.5}, {}, {SCORE: nan}, {SCORE: 0.25}]
    for step, each in enumerate(metadata):
        checkpoints.save(step, state(on(2), seed=step), each)
    checkpoints.wait()
    assert checkpoints.steps() == [2, 4, 5]
    assert checkpoints.best() == Best(0.5, 2, None)
    best, newest = (
        restore(Layout(like(on(2))))
        for restore in (checkpoints.restore_best, checkpoints.restore_newest)
    )
    assert best is not None
    assert newest is not None
    assert (best.step, newest.step) == (2, 5)
    assert bits(best.state) == bits(state(on(1), seed=2))


def test_without_scores_no_checkpoint_is_the_best(two: Path) -> None:
    checkpoints = Checkpoints(two, keep=3)
    assert checkpoints.best() is None
    assert checkpoints.restore_best(Layout(like(on(1)))) is None


def test_no_program_is_compiled_to_save_replicated_arrays(checkpoints: Checkpoints) -> None:
    """Except the one that computes the digests."""
    compiled: list[str] = []

    def note(event: str, duration_secs: float, **kwargs: str | int) -> None:
        compiled.extend([event] if event.endswith("backend_compile_duration") else [])

    place = meshes.replicated(on(8))
    arrays = [jax.device_put(np.ones((8, 8 * number)), place) for number in (31, 37, 41)]
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        checkpoints.save(1, {str(leaf.shape[1]): leaf for leaf in arrays}, {})
        checkpoints.wait()
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert len(compiled) <= 1


def test_a_state_that_is_donated_right_after_its_save_is_saved_unchanged(
    checkpoints: Checkpoints,
) -> None:
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
    restored = checkpoints.restore_newest(Layout({"leaf": shape}))
    assert restored is not None
    np.testing.assert_array_equal(restored.state["leaf"], make())


def test_another_network_is_refused_with_both_shapes(two: Path) -> None:
    with pytest.raises(UserError) as refusal:
        Checkpoints(two, keep=3).restore_newest(Layout(like(on(1), hidden=7)))
    first, *lines = str(refusal.value).splitlines()
    kernel = (
        "params/hidden_0/kernel: checkpoint has (17, 200) float32, this run has (17, 7) float32"
    )
    assert f"learner/{kernel}" in lines
    assert len(lines) == 6  # kernel, bias, and two moments of each
    assert "has changed since it was saved; undo that change or start a new run" in first
    with pytest.raises(UserError, match=r"\nand 5 more$"):
        Checkpoints(two, keep=3).restore_newest(Layout(like(on(1), envs=2 * ENVS, hidden=7)))


def test_another_dtype_is_refused_and_not_cast(two: Path) -> None:
    wanted = like(on(1))
    over = wanted.players["over"]
    number = jax.ShapeDtypeStruct(over.shape, jnp.uint8, sharding=over.sharding)
    with pytest.raises(UserError) as refusal:
        Checkpoints(two, keep=3).restore_newest(
            Layout(wanted.replace(players=wanted.players | {"over": number}))
        )
    assert str(refusal.value).splitlines()[1:] == [
        "players/over: checkpoint has (16,) bool, this run has (16,) uint8"
    ]


def test_an_extra_or_missing_layer_is_refused(two: Path) -> None:
    wanted = like(on(1))
    params = wanted.learner.params
    fewer = {"hidden_0": params["hidden_0"]}
    more = params | {"hidden_1": params["hidden_0"]}
    for changed, line in (
        (fewer, "head/bias: checkpoint has (200,) bfloat16, this run has none"),
        (more, "hidden_1/kernel: checkpoint has none, this run has (17, 200) float32"),
    ):
        asked = wanted.replace(learner=wanted.learner.replace(params=changed))
        with pytest.raises(UserError) as refusal:
            Checkpoints(two, keep=3).restore_newest(Layout(asked))
        assert str(refusal.value).splitlines()[1:] == [f"learner/params/{line}"]


def test_parts_that_are_not_requested_are_not_restored(two: Path) -> None:
    wanted = like(on(2)).replace(players=None)
    wanted = wanted.replace(learner=wanted.learner.replace(optimiser=None))
    restored = Checkpoints(two, keep=3).restore_newest(Layout(wanted))
    assert restored is not None
    assert restored.state.players is None
    assert restored.state.learner.optimiser is None
    assert bits(restored.state.learner.params) == bits(state(on(1), seed=2).learner.params)


def test_a_part_is_accepted_where_the_rest_does_not_fit(two: Path) -> None:
    checkpoints = Checkpoints(two, keep=3)
    wanted = like(on(2), envs=2 * ENVS)
    learner = wanted.replace(players=None)
    with pytest.raises(UserError, match="players/boards"):
        checkpoints.restore_newest(Layout(wanted))
    part = checkpoints.restore_newest(Layout(wanted), Layout(learner))
    whole = checkpoints.restore_newest(Layout(like(on(2))), Layout(learner))
    assert part is not None
    assert whole is not None
    assert part.state.players is None
    assert whole.state.players is not None
    assert bits(part.state.learner) == bits(whole.state.learner)


def test_another_network_is_refused_though_a_part_would_be_accepted(two: Path) -> None:
    wanted = like(on(1), envs=2 * ENVS, hidden=7)
    with pytest.raises(UserError) as refusal:
        Checkpoints(two, keep=3).restore_newest(
            Layout(wanted), Layout(wanted.replace(players=None))
        )
    assert all(line.startswith("learner/") for line in str(refusal.value).splitlines()[1:])


def test_a_state_in_an_older_layout_is_converted_to_the_current_one(two: Path) -> None:
    old = like(on(2))
    today = old.replace(players=old.players | {"lives": old.players["steps"]})

    def with_lives(state: State) -> State:
        return state.replace(players=state.players | {"lives": state.players["steps"] + 3})

    restored = Checkpoints(two, keep=3).restore_newest(Layout(today), Layout(old, with_lives))
    assert restored is not None
    assert bits(restored.state) == bits(with_lives(state(on(2), seed=2)))


def test_a_step_that_is_saved_already_is_not_saved_again(two: Path, messages: list[str]) -> None:
    checkpoints = Checkpoints(two, keep=3, say=messages.append)
    restored = checkpoints.restore_newest(Layout(like(on(2))))
    assert restored is not None
    before = (two / "2").stat().st_mtime_ns
    checkpoints.save(2, restored.state, {})
    checkpoints.save(3, restored.state, {})
    checkpoints.save(3, restored.state, {})
    checkpoints.wait()
    assert (two / "2").stat().st_mtime_ns == before
    assert sorted(each.name for each in two.iterdir()) == ["1", "2", "3"]
    assert messages == []


@pytest.mark.parametrize("restore", [Checkpoints.restore_newest, Checkpoints.restore_best])
def test_a_directory_that_cannot_be_listed_is_refused_in_one_line(
    tmp_path: Path, restore: Callable[[Checkpoints], object]
) -> None:
    loop = tmp_path / "checkpoints"
    loop.symlink_to(loop)
    with pytest.raises(UserError, match=f"^{loop} cannot be read: Too many levels of symbolic"):
        restore(Checkpoints(loop, keep=3))
