"""The benchmark of the Gymnasium environments, with small ones in place of the game's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from hackmatrix.bench import gymnasium_envs
from hackmatrix.bench.report import Report
from hackmatrix.bench.timing import REPEATS

LENGTH = 3  # steps of a game
CALLS = 12


class Small(gymnasium.Env[int, int]):
    """Ends after a few steps, and refuses actions that the mask forbids."""

    observation_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(4)
    resets = steps = 0

    def action_masks(self) -> np.ndarray:
        return np.arange(4) == self.steps % 4

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.steps = 0
        type(self).resets += 1
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.action_masks()[action]
        self.steps += 1
        assert self.steps <= LENGTH
        return 0, 0.0, self.steps == LENGTH, False, {}


class SmallVector(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Several that never end; each takes only the action that the last mask allows."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
    single_observation_space = observation_space = gymnasium.spaces.Discrete(2)
    single_action_space = action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.steps = num_envs, 0

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 0, {"action_mask": self.masks()}

    def masks(self) -> np.ndarray:
        return np.tile(np.arange(4) == self.steps % 4, (self.num_envs, 1))

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        assert actions.shape == (self.num_envs,)
        assert (actions == self.steps % 4).all()
        self.steps += 1
        nothing = np.zeros(self.num_envs)
        return 0, nothing, nothing > 0, nothing > 0, {"action_mask": self.masks()}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    gymnasium.register(
        "Small-v0",
        entry_point=lambda **_: Small(),
        vector_entry_point=lambda **kwargs: SmallVector(**kwargs),
    )
    monkeypatch.setattr(gymnasium_envs, "ENVIRONMENT", "Small-v0")
    monkeypatch.setattr(gymnasium_envs, "NUMBERS", (1, 8))
    monkeypatch.setattr(gymnasium_envs, "_CALLS", CALLS)
    yield gymnasium_envs
    del gymnasium.registry["Small-v0"]


def test_many_games_are_compared_with_a_single_one(bench: Any) -> None:
    before = Small.resets
    speeds = bench.measure(seconds=0)
    assert [(each.made_by, each.games) for each in speeds] == [
        ("make", 1),
        ("make_vec", 1),
        ("make_vec", 8),
    ]
    for each in speeds:
        assert len(each.rate.samples) == REPEATS
        assert each.times_single == pytest.approx(each.rate.over(speeds[0].rate))
    # One at first, then one after each game: it is a call of its own, as with many games.
    calls = (1 + REPEATS) * CALLS
    assert Small.resets - before == 1 + calls // (LENGTH + 1)


def test_each_speed_is_printed_as_a_line(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    speeds = bench.measure(seconds=0)
    bench.tell(speeds, Report(as_json=False))
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.endswith("times single")
    assert [row.split()[:2] for row in rows] == [
        ["make", "1"],
        ["make_vec", "1"],
        ["make_vec", "8"],
    ]
    bench.tell(speeds, Report(as_json=True))
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["games"] for each in printed] == [1, 1, 8]
    assert all(each["steps_per_second"]["median"] > 0 for each in printed)
