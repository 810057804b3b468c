"""Steps and updates of a run whose updates may change in size, and the lengths of its chunks."""

from typing import Any

import pytest

from hackmatrix.train.runs.schedule import Schedule
from tests.train.settings import resolved


def test_a_new_run_has_the_updates_of_its_configuration() -> None:
    config = resolved(num_envs=8, num_steps=8, total_timesteps=25 * 64 + 63)
    schedule = Schedule(config)
    assert schedule.last_update == config.num_updates == 25
    assert (schedule.steps_after(0), schedule.steps_after(25)) == (0, 25 * 64)
    assert schedule.extra_updates == 0


def test_a_run_is_never_shorter_than_the_updates_it_has_done() -> None:
    config = resolved(num_envs=8, num_steps=8, total_timesteps=64)
    assert Schedule(config, update=5, steps=320).last_update == 5
    assert Schedule(resolved(num_envs=8, num_steps=8, total_timesteps=1)).last_update == 1


def test_updates_and_steps_keep_counting_up_when_updates_change_in_size() -> None:
    config = resolved(num_envs=8, num_steps=32, total_timesteps=2560)
    schedule = Schedule(config, update=10, steps=1280)
    assert (schedule.last_update, schedule.steps_after(15)) == (15, 2560)
    assert schedule.extra_updates == -5  # the steps would have been 5 updates of today's size


def test_steps_are_counted_beyond_what_32_bits_hold() -> None:
    config = resolved(num_envs=2048, num_steps=128, total_timesteps=2**40)
    schedule = Schedule(config, update=2**14, steps=2**32)
    assert schedule.steps_after(2**14 + 1) == 2**32 + 2**18
    assert schedule.steps_after(schedule.last_update) == 2**40


def chunks(ends: tuple[int, ...], given: dict[str, Any]) -> list[int]:
    """Where the chunks of a run of 25 updates end."""
    schedule = Schedule(resolved(num_envs=8, num_steps=8, total_timesteps=25 * 64, **given))
    reached = [0]
    while updates := schedule.next_chunk(reached[-1], ends):
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
def test_a_chunk_ends_at_every_log_save_and_trace(
    ends: tuple[int, ...], given: dict[str, Any], expected: list[int]
) -> None:
    assert chunks(ends, given) == expected


def test_a_run_that_stopped_between_saves_ends_its_next_chunk_at_a_save() -> None:
    schedule = Schedule(resolved(num_envs=8, num_steps=8, log_interval=10, save_interval=20))
    assert schedule.next_chunk(15) == 5
    assert schedule.next_chunk(20) == 10


def test_nothing_is_left_to_do_after_more_updates_than_requested() -> None:
    schedule = Schedule(resolved(num_envs=8, num_steps=8, total_timesteps=640))
    assert schedule.next_chunk(11) == 0


def test_a_run_resumed_with_other_sizes_does_the_remaining_steps() -> None:
    config = resolved(num_envs=8, num_steps=32, total_timesteps=2560, log_interval=3)
    schedule = Schedule(config, update=10, steps=1280)
    assert [schedule.next_chunk(update) for update in (10, 13, 15)] == [3, 2, 0]
