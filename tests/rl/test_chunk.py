"""Chunks of updates: updates that are not finite, and algorithms that break the interface."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from hackmatrix.errors import UserError
from hackmatrix.rl import chunk, draws, rollout
from hackmatrix.rl.chunk import SKIPPED
from hackmatrix.rl.rollout import Players
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.rl.train_state import NEVER, Report, TrainState
from tests.envs.toy import Toy
from tests.rl.rolled import on_one_device

UPDATES = 6
BROKEN, OVERFLOWING = 2, 4  # updates
LOSS = "train/loss"


class Learner(struct.PyTreeNode):
    weights: jax.Array
    update: jax.Array
    key: jax.Array


class Breaking:
    """Adds 1 to each weight in an update, and reports the update's index as the loss. The loss of
    one update is NaN, and in another a weight overflows.
    """

    vital: tuple[str, ...] = (LOSS,)

    def update(
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        number = learner.update
        overflow = jnp.where(number == OVERFLOWING, jnp.inf, 0) * jnp.array([1.0, 0.0])
        loss = jnp.where(number == BROKEN, jnp.nan, number.astype(jnp.float32))
        after = learner.replace(weights=learner.weights + 1 + overflow, update=number + 1)
        return after, players, tally, {LOSS: loss}


def run(
    algorithm: Any, skips: bool = False, updates: int = UPDATES, weights: Any = None
) -> tuple[Learner, Report]:
    """Runs updates on two boards."""
    env, key = Toy(), draws.seed_key(0)
    players = rollout.new_players(env, key, jnp.arange(2, dtype=jnp.uint32))
    learner = Learner(jnp.zeros(2) if weights is None else weights, jnp.int32(0), key)
    chunks = on_one_device(functools.partial(chunk.run, env, algorithm, skips))
    state, report = chunks(TrainState(learner, players), jnp.int32(updates))
    return state.learner, report


@pytest.fixture(scope="module")
def after() -> dict[bool, tuple[Learner, Report]]:
    """The learner and the report after the updates, with and without skipping."""
    return {skips: run(Breaking(), skips) for skips in (False, True)}


class Bursting(Breaking):
    """Reports a finite loss in every update, even when a weight overflows."""

    def update(self, *given: Any) -> tuple[Learner, Players, Tally, Metrics]:
        after, players, tally, _ = super().update(*given)
        return after, players, tally, {LOSS: jnp.float32(0)}


class Silent(Breaking):
    vital = (LOSS, "train/grad_norm")


class Changing(Breaking):
    """Replaces fields of the learner."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def update(
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        learner, players, tally, metrics = super().update(learner, players, tally)
        return learner.replace(**self.changes), players, tally, metrics


class Swapping(Breaking):
    """Changes the dtype of a field of the players."""

    def update(self, *given: Any) -> Any:
        learner, players, tally, metrics = super().update(*given)
        return learner, players.replace(number=players.number * 1.0), tally, metrics


class Posing(Breaking):
    """Reports a metric that the trainer reports."""

    def update(self, *given: Any) -> Any:
        learner, players, tally, metrics = super().update(*given)
        return learner, players, tally, {**metrics, "train/mean_reward": metrics[LOSS]}


class Failing(Breaking):
    def update(self, *given: Any) -> Any:
        return given[0].nothing_like_that


class Mute(Breaking):
    def update(self, *given: Any) -> Any:
        return *super().update(*given)[:3], None


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (Posing(), "not include train/mean_reward, which the trainer or the environment reports"),
        (Failing(), "Failing.update: it fails: AttributeError: 'Learner' object has no attribute"),
        (Failing(), "nothing_like_that', test_chunk.py:"),
        (Mute(), "Mute.update: its metrics must be a dictionary from tags to numbers"),
        (Swapping(), "it changes players.number from uint32[2] to float32[2]"),
        (Silent(), "Silent.update: its metrics lack train/grad_norm, which `vital` names"),
        (
            Changing(weights=jnp.zeros(3)),
            "it changes learner.weights from float32[2] to float32[3]",
        ),
        (Changing(weights=(jnp.zeros(2),)), "it changes the tree structure of the learner"),
    ],
)
def test_an_algorithm_whose_update_breaks_the_interface_is_refused(
    algorithm: Breaking, message: str
) -> None:
    with pytest.raises(UserError) as refused:
        run(algorithm)
    assert message in str(refused.value)


def test_metrics_of_narrow_dtypes_are_averaged_exactly() -> None:
    class Narrow(Breaking):
        def update(self, *given: Any) -> tuple[Learner, Players, Tally, Metrics]:
            *after, _ = super().update(*given)
            kinds = jnp.bool_, jnp.uint8, jnp.bfloat16
            metrics = {f"mine/{kind.__name__}": jnp.ones((), kind) for kind in kinds}
            return *after, {LOSS: jnp.float32(0), **metrics}  # type: ignore[return-value]

    _, report = run(Narrow(), updates=300)
    mine = {tag: float(value) for tag, value in report.metrics.items() if tag.startswith("mine/")}
    assert set(mine.values()) == {1.0}
    assert len(mine) == 3


def test_an_update_is_traced_once() -> None:
    traced = []

    class Noting(Breaking):
        def update(self, *given: Any) -> tuple[Learner, Players, Tally, Metrics]:
            traced.append(self)
            return super().update(*given)

    run(Noting())
    assert len(traced) == 1


def test_the_first_update_that_is_not_finite_is_reported_by_its_index(
    after: dict[bool, tuple[Learner, Report]],
) -> None:
    _, report = after[False]
    assert int(report.broken_at) == BROKEN
    assert SKIPPED not in report.metrics


def test_a_learner_that_is_not_finite_after_the_last_update_is_reported() -> None:
    learner, report = run(Bursting())
    assert not np.isfinite(learner.weights).all()
    assert int(report.broken_at) == UPDATES - 1


@pytest.mark.parametrize("spoilt", ["one", "of_the_same_shape", "of_another_shape"])
def test_a_learner_with_any_leaf_that_is_not_finite_is_reported(spoilt: str) -> None:
    class Spoiling(Breaking):
        def update(self, *given: Any) -> tuple[Learner, Players, Tally, Metrics]:
            learner, players, tally = given
            weights = {**learner.weights, spoilt: learner.weights[spoilt].at[-1].set(jnp.inf)}
            after = learner.replace(weights=weights, update=learner.update + 1)
            return after, players, tally, {LOSS: jnp.float32(0)}

    shapes = {"one": 2, "of_the_same_shape": 2, "of_another_shape": (3, 1)}
    _, report = run(Spoiling(), weights={name: jnp.zeros(each) for name, each in shapes.items()})
    assert int(report.broken_at) == UPDATES - 1


def test_a_skipped_update_changes_nothing_but_the_update_count(
    after: dict[bool, tuple[Learner, Report]],
) -> None:
    learner, report = after[True]
    np.testing.assert_array_equal(learner.weights, [UPDATES - 2] * 2)
    assert int(learner.update) == UPDATES  # so no draw is repeated
    assert int(report.broken_at) == NEVER


def test_skipped_updates_are_counted_and_left_out_of_the_means(
    after: dict[bool, tuple[Learner, Report]],
) -> None:
    _, report = after[True]
    assert float(report.metrics[SKIPPED]) == 2
    counted = [number for number in range(UPDATES) if number not in (BROKEN, OVERFLOWING)]
    assert float(report.metrics[LOSS]) == pytest.approx(np.mean(counted))


def test_a_mean_over_more_steps_than_a_float32_can_count_one_by_one_is_right() -> None:
    steps, reward = 2**16, 0.08

    class Playing(Breaking):
        """Counts as if each board had been played for many steps with the same reward."""

        def update(self, *given: Any) -> tuple[Learner, Players, Tally, Metrics]:
            learner, players, tally, _ = super().update(*given)
            played = tally.replace(
                steps=tally.steps + steps, each_step=_added(tally.each_step, reward, steps)
            )
            return learner, players, played, {LOSS: jnp.float32(0)}

    _, report = run(Playing(), updates=64)
    assert float(report.metrics["train/mean_reward"]) == pytest.approx(reward, rel=5e-3)


def _added(sums: jax.Array, number: float, times: int) -> jax.Array:
    return jax.lax.fori_loop(0, times, lambda _, sums: sums + number, sums)
