"""Milestones: checkpoints that are kept spread over the run, however long it becomes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock

import jax.numpy as jnp
import pytest

from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.checkpoints.shelf import milestones
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.directory import Run
from tests.train.settings import config

BATCH = 3 * 2**14
KEPT = {"keep_checkpoints": 1, "keep_milestones": 3}


def saved(steps: Iterable[int], most: int, before: Iterable[int] = ()) -> list[int]:
    """The steps that are left after all saves if only milestones and the newest are kept."""
    kept = [*before]
    for step in steps:
        kept = [*milestones(kept, most), step]
    return kept


@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_there_are_at_most_as_many_milestones_as_requested_and_at_least_half(
    most: int,
) -> None:
    for saves in range(1, 100):
        kept = milestones(saved(range(BATCH, saves * BATCH, BATCH), most), most)
        assert min(saves - 1, (most + 1) // 2) <= len(kept) <= most


def test_milestones_are_spread_over_the_run() -> None:
    kept = saved(range(BATCH, 1000 * BATCH, BATCH), 10)
    gaps = [later - earlier for earlier, later in zip([0, *kept], kept, strict=False)][:-1]
    assert max(gaps) < 1.1 * min(gaps)
    assert kept[-2] > 0.8 * kept[-1]


def test_milestones_that_an_earlier_revision_spaced_differently_are_thinned() -> None:
    before = [1_000_000 * each + 60_000 for each in range(1, 11)]
    assert len(milestones(before, 10)) == 9
    for end in range(11_000_000, 50_000_000, 500_000):
        kept = milestones(saved(range(10_500_000, end, 500_000), 10, before), 10)
        assert 5 <= len(kept) <= 10
        assert end > 23_000_000 or len({*kept} & {*before}) >= 4


def test_no_milestones_are_kept_if_none_are_requested() -> None:
    assert milestones([5, 7, 10**13], 0) == milestones([], 10) == []


def test_an_extended_run_thins_its_milestones_and_keeps_them_spread(tmp_path: Path) -> None:
    batch, kept = 2**17, []
    for updates, total in ((range(1, 9), 8 * batch), (range(9, 12), 10**13)):
        settings = config(num_envs=batch // 16, total_timesteps=total, **KEPT)
        checkpointer = Checkpointer(Run(tmp_path, settings), Mock(), Clock(), print)
        for update in updates:
            checkpointer.save(update, jnp.uint32(update))
        checkpointer.close()
        kept.append([step // batch for step in checkpointer.steps()])
    assert kept == [[2, 4, 6, 8], [4, 8, 11]]
