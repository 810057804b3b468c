"""Benchmark of the Gymnasium environments: many games per call, compared with one game per call.

A step is one random valid action, or the reset of a game that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from hackmatrix.bench.report import Report, in_columns, of_rate
from hackmatrix.bench.timing import Rate, Work, in_turns

ENVIRONMENT = "HackMatrix-v0"  # importing the package has registered it
NUMBERS = (1, 16, 256)
_CALLS = 100  # of the environment, per sample
_WIDTHS = (8, 5, 10, 21, 14)


@dataclass(frozen=True)
class Speed:
    """The speed of an environment that gymnasium's `made_by` makes."""

    made_by: str
    games: int
    rate: Rate
    times_single: float


def measure(seconds: float) -> list[Speed]:
    """Measures all environments in turns, the single one first."""
    single, *vectorised = in_turns(_single(), *map(_vectorised, NUMBERS), seconds=seconds)
    return [
        Speed("make", 1, single, 1.0),
        *(
            Speed("make_vec", games, rate, rate.over(single))
            for games, rate in zip(NUMBERS, vectorised, strict=True)
        ),
    ]


def tell(speeds: list[Speed], report: Report) -> None:
    report.say(in_columns(("", "games", "steps/s", "(min - max)", "times single"), _WIDTHS))
    for each in speeds:
        cells = each.made_by, f"{each.games}", *of_rate(each.rate), f"{each.times_single:.2f}"
        values = {
            "made_by": each.made_by,
            "games": each.games,
            "steps_per_second": each.rate.as_json,
            "times_single": each.times_single,
        }
        report.tell("gymnasium", values, in_columns(cells, _WIDTHS))


def _single() -> Work[bool]:
    env, rng = gymnasium.make(ENVIRONMENT), np.random.default_rng(0)
    env.reset(seed=0)
    games: Any = env.unwrapped

    def play(done: bool) -> bool:
        for _ in range(_CALLS):
            if done:
                env.reset()
                done = False
            else:
                _, _, done, _, _ = env.step(int(_any(games.action_masks(), rng)))
        return done

    return Work(play, False, _CALLS)


def _vectorised(games: int) -> Work[np.ndarray]:
    """Returns work whose value is the masks, bool[E, 28]."""
    envs, rng = gymnasium.make_vec(ENVIRONMENT, num_envs=games), np.random.default_rng(0)
    _, told = envs.reset(seed=0)

    def play(masks: np.ndarray) -> np.ndarray:
        for _ in range(_CALLS):
            *_, told = envs.step(_any(masks, rng))
            masks = told["action_mask"]
        return masks

    return Work(play, told["action_mask"], _CALLS * games)


def _any(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws one of the valid actions of each mask, bool[..., 28]."""
    return np.argmax(rng.random(masks.shape) * masks, axis=-1)
