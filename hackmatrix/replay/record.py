"""A recorded game, turn by turn: what was seen and valid, the policy's decision, the outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hackmatrix.envs.headless import Choose, Decision
from hackmatrix.envs.headless.remembered import RememberedGame
from hackmatrix.envs.headless.view import Json
from hackmatrix.envs.hosted import HostedGames
from hackmatrix.replay import happenings

_ENDS = {"won": "victory", "died": "death", "invalid": "an invalid action"}
# Maps a step (None: the new game) to a raw key u32[2] and the number to fold into it.
StepKey = Callable[[int | None], tuple[np.ndarray, int]]


@dataclass(frozen=True)
class Frame:
    """A board and the turn taken on it. The last board of an episode has no decision."""

    seen: Json
    valid: list[int]
    decision: Decision | None = None
    reward: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    happened: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Episode:
    """A recorded game. `title` names the player; `end` is how it ended, or "not yet"."""

    title: str
    frames: list[Frame]
    end: str

    @property
    def total(self) -> float:
        return sum(frame.reward for frame in self.frames)


def record(title: str, choose: Choose, step_key: StepKey, most_steps: int) -> Episode:
    """Plays a game to its end, or for `most_steps`, and records it."""
    games = HostedGames(1)
    games.draw_from(0, *step_key(None))
    game = RememberedGame(games, games.new_games())
    frames, end = [], "not yet"
    for step in range(most_steps):
        decision = choose(game.observation, game.mask, step, games.states)
        now, before = _as_it_stands(game), game.board
        games.draw_from(0, *step_key(step))
        outcome = game.play(decision.action)
        frames.append(
            replace(
                now,
                decision=decision,
                reward=_short(outcome.reward),
                parts={name: _short(part) for name, part in outcome.parts.items() if part},
                happened=happenings.tell(before, decision.action, game.board, outcome),
            )
        )
        if outcome.done:
            end = next(said for name, said in _ENDS.items() if getattr(outcome, name))
            break
    return Episode(title, [*frames, _as_it_stands(game)], end)


def _as_it_stands(game: RememberedGame) -> Frame:
    return Frame(game.shown(), np.flatnonzero(game.mask).tolist())


def _short(number: Any) -> float:
    """Returns 0.04 rather than the nearest float32."""
    return round(float(number), 4)
