"""Recorded episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hackmatrix import game
from hackmatrix.envs.headless.states import read_state
from hackmatrix.game.state import SIPHON
from hackmatrix.replay import happenings
from hackmatrix.replay.record import Episode
from tests.replay.wanderer import wander

BOARD: dict[str, Any] = {
    "player": {"row": 2, "col": 3, "hp": 3, "credits": 4},
    "enemies": [
        {"type": "virus", "row": 2, "col": 0, "hp": 2},
        {"type": "daemon", "row": 5, "col": 3, "hp": 3},
    ],
}


def test_an_episode_holds_what_was_seen_decided_and_gained(episode: Episode) -> None:
    *turns, last = episode.frames
    assert last.decision is None
    assert len(turns) > 5
    for frame in turns:
        assert frame.decision is not None
        assert frame.decision.action in frame.valid
        assert sum(frame.decision.probabilities) == pytest.approx(1, abs=0.01)
        assert {np.flatnonzero(frame.decision.probabilities)[0], frame.decision.action} <= {
            *frame.valid
        }
        assert sum(frame.parts.values()) == pytest.approx(frame.reward, abs=2e-3)
    places = {(frame.seen["playerRow"], frame.seen["playerCol"]) for frame in turns}
    assert len(places) > 1
    assert episode.total == pytest.approx(sum(frame.reward for frame in turns))


def test_the_same_game_is_recorded_again_and_another_is_another(episode: Episode) -> None:
    assert wander("", 5).frames == episode.frames
    assert wander("", 6).frames[0].seen["cells"] != episode.frames[0].seen["cells"]


def test_a_player_is_asked_about_every_step_in_order(episode: Episode) -> None:
    values = [frame.decision.value for frame in episode.frames if frame.decision]
    assert values == [step / 4 for step in range(len(episode.frames) - 1)]


def told(action: int, **changes: Any) -> list[str]:
    """Of a turn that leads from BOARD to what has changed."""
    before, _ = read_state(BOARD)
    after, _ = read_state({**BOARD, **changes})
    no = np.bool_(False)
    outcome = game.Outcome(no, {}, done=no, invalid=no, stage_completed=no, won=no, died=no)  # type: ignore[arg-type]
    return happenings.tell(before, action, after, outcome)


def test_it_is_told_what_enemies_do() -> None:
    virus, daemon = BOARD["enemies"]
    moved = {**virus, "col": 2}
    assert told(SIPHON, enemies=[moved, daemon]) == ["virus at row 2 col 0 moves to row 2 col 2"]
    hit = {**BOARD["player"], "hp": 1}
    assert told(SIPHON, player=hit) == ["enemies hit the player: hp 3 → 1"]
    glitch = {"type": "glitch", "row": 0, "col": 0, "hp": 2}
    assert told(SIPHON, enemies=[virus, daemon, glitch]) == ["glitch at row 0 col 0 appears"]
    stunned = {**virus, "hp": 1, "stunned": True}
    assert told(2, enemies=[stunned, daemon]) == ["virus at row 2 col 0 hp 2 → 1, is stunned"]


def test_it_is_told_what_the_player_gains() -> None:
    richer = {**BOARD["player"], "credits": 6, "score": 3}
    assert told(SIPHON, player=richer) == ["credits 4 → 6", "score 0 → 3"]
