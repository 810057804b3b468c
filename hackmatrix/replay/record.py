"""A recorded game, turn by turn: what was seen and valid, the policy's decision, the outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from hackmatrix import game
from hackmatrix.envs.headless import Choose, Decision
from hackmatrix.envs.headless.memory import Memory
from hackmatrix.envs.headless.view import Json, observation
from hackmatrix.envs.hosted import HostedGames, Turn, describe
from hackmatrix.replay import happenings

# The raw key u32[2] and the number folded into it that a step draws from; None is the new game.
StepKey = Callable[[int | None], tuple[np.ndarray, int]]


@dataclass(frozen=True)
class Frame:
    """A board, and what was done on it. The last board of an episode has no decision."""

    seen: Json
    valid: list[int]
    decision: Decision | None = None
    reward: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    happened: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Episode:
    """`title` says whose it is. `end` is death, victory, an invalid action, or not yet."""

    title: str
    frames: list[Frame]
    end: str

    @property
    def total(self) -> float:
        return sum(frame.reward for frame in self.frames)


def record(title: str, choose: Choose, step_key: StepKey, most_steps: int) -> Episode:
    """Plays a game to its end and records it."""
    games = HostedGames(1)
    games.draw_from(0, *step_key(None))
    turn = games.new_games()
    board = describe(games.board(0))
    memory = Memory(board, [])
    frames = []
    for step in range(most_steps):
        valid = np.asarray(turn.mask[0])
        decision = choose(np.asarray(turn.observation[0]), valid, step, games.states)
        before, seen = board, observation(board, memory.owned, memory.hints())
        games.draw_from(0, *step_key(step))
        turn = games.play(np.array([decision.action]))
        board = describe(games.board(0))
        outcome = jax.tree.map(lambda leaf: leaf[0], turn.outcome)
        if not outcome.invalid:
            memory.follow(decision.action, board)
        frames.append(
            Frame(
                seen=seen,
                valid=np.flatnonzero(valid).tolist(),
                decision=decision,
                reward=_short(outcome.reward),
                parts={name: _short(part) for name, part in outcome.parts.items() if part},
                happened=happenings.tell(before, decision.action, board, outcome),
            )
        )
        if outcome.done:
            break
    frames.append(_last(board, memory, turn))
    return Episode(title, frames, _end(turn))


def _last(board: Json, memory: Memory, turn: Turn) -> Frame:
    return Frame(
        observation(board, memory.owned, memory.hints()), np.flatnonzero(turn.mask[0]).tolist()
    )


def _end(turn: Turn) -> str:
    ends = {"won": "victory", "died": "death", "invalid": "an invalid action"}
    outcome: game.Outcome = turn.outcome
    return next((said for name, said in ends.items() if getattr(outcome, name)[0]), "not yet")


def _short(number: Any) -> float:
    """0.04 rather than the float32 next to it."""
    return round(float(number), 4)
