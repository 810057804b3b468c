"""What is read of chunks of updates."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import jax.numpy as jnp
import pytest

from hackmatrix.rl.train_state import Report
from hackmatrix.train.reporting.progress import Broken, Progress
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
