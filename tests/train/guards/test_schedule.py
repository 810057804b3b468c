"""How far a run goes before somebody looks at it again."""

from typing import Any

import pytest

from hackmatrix.train.guards.schedule import next_chunk
from hackmatrix.train.runs.course import Course
from tests.train.settings import resolved


def chunks(ends: tuple[int, ...], given: dict[str, Any]) -> list[int]:
    """Where the chunks of a run of 25 updates end."""
    course = Course(resolved(num_envs=8, num_steps=8, total_timesteps=25 * 64, **given))
    reached = [0]
    while updates := next_chunk(course, reached[-1], ends):
        reached.append(reached[-1] + updates)
    return reached[1:]


@pytest.mark.parametrize(
    ("ends", "given", "expected"),
    [
        ((), {"log_interval": 10}, [10, 20, 25]),
        ((), {"log_interval": 5, "save_interval": 20}, [5, 10, 15, 20, 25]),
        ((), {"log_interval": 30}, [25]),
        ((14, 16), {"log_interval": 10}, [10, 14, 16, 25]),  # of a trace
        ((0, 2), {"log_interval": 10}, [2, 12, 22, 25]),
    ],
)
def test_a_chunk_ends_where_somebody_has_to_look(
    ends: tuple[int, ...], given: dict[str, Any], expected: list[int]
) -> None:
    assert chunks(ends, given) == expected


def test_a_run_that_stopped_between_saves_ends_its_next_chunk_at_one() -> None:
    course = Course(resolved(num_envs=8, num_steps=8, log_interval=10, save_interval=20))
    assert next_chunk(course, 15) == 5
    assert next_chunk(course, 20) == 10


def test_nothing_is_left_to_do_after_more_updates_than_are_wanted() -> None:
    course = Course(resolved(num_envs=8, num_steps=8, total_timesteps=640))
    assert next_chunk(course, 11) == 0


def test_a_run_of_other_sizes_than_before_does_the_steps_that_are_left() -> None:
    config = resolved(num_envs=8, num_steps=32, total_timesteps=2560, log_interval=3)
    course = Course(config, update=10, steps=1280)
    assert [next_chunk(course, update) for update in (10, 13, 15)] == [3, 2, 0]
