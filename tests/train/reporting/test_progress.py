"""What is read of chunks of updates."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, patch

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.rl.train_state import NEVER, Report
from hackmatrix.train.reporting.progress import STEPS_PER_SECOND, Broken, Progress
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.course import Course
from tests.train.settings import resolved

LOSS = "train/loss"


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (0, "in the first update that is a reward, an observation or the network itself"),
        (7, "go on with a lower --config.lr, or with --config.skip_nonfinite=True"),
    ],
)
def test_what_may_have_broken_an_update_depends_on_whether_it_was_the_first(
    update: int, said: str
) -> None:
    program: Any = Mock()
    program.algorithm.vital = (LOSS,)
    progress = Progress(program, Course(resolved()), Clock(), Mock())
    progress.add(10, 10, Report({LOSS: jnp.float32(jnp.nan)}, jnp.int32(update)))
    with pytest.raises(Broken) as broken:
        progress.flush()
    assert str(broken.value).startswith(f"update {update + 1} is broken: {LOSS} is not finite; ")
    assert said in str(broken.value)


@pytest.mark.parametrize("waits_at_the_start", [True, False], ids=["GPU", "CPU or TPU"])
def test_the_speed_of_a_chunk_is_its_own_where_starting_it_takes_its_time_too(
    waits_at_the_start: bool,
) -> None:
    """Here each update takes a second, and the last chunk is a short one."""
    now = ended = 0.0

    def wait_until(time: float) -> None:
        nonlocal now
        now = max(now, time)

    def read(report: Report) -> Report:
        wait_until(float(report.metrics["ended"]))
        return report

    speeds = []
    program: Any = Mock()
    program.algorithm.vital, program.mesh.size = (), 1
    course = Course(resolved())
    with (
        patch.object(Clock, "seconds", lambda clock: now),
        patch.object(jax, "device_get", read),
    ):
        progress = Progress(
            program, course, Clock(), lambda _, metrics: speeds.append(metrics[STEPS_PER_SECOND])
        )
        update = 0
        for updates in (20, 20, 5):
            ended = max(now, ended) + updates
            update += updates
            if waits_at_the_start:
                wait_until(ended)
            progress.add(update, updates, Report({"ended": ended}, jnp.int32(NEVER)))  # type: ignore[dict-item]
        progress.flush()
    assert speeds == pytest.approx([course.config.batch_size] * 3)
