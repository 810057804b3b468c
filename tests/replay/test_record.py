"""Recorded episodes."""

from __future__ import annotations

import numpy as np
import pytest

from hackmatrix.replay.record import Episode
from tests.replay.wanderer import wander


def test_an_episode_holds_observations_decisions_and_rewards(episode: Episode) -> None:
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


def test_a_game_played_again_is_recorded_identically_and_another_is_not(episode: Episode) -> None:
    assert wander("", 5).frames == episode.frames
    assert wander("", 6).frames[0].seen["cells"] != episode.frames[0].seen["cells"]


def test_an_episode_says_how_its_game_ended(episode: Episode) -> None:
    lost = wander("", 7)
    assert lost.frames[-1].seen["playerHP"] == 0
    assert lost.end == "death"
    assert episode.end == "not yet"


def test_the_player_decides_every_step_in_order(episode: Episode) -> None:
    values = [frame.decision.value for frame in episode.frames if frame.decision]
    assert values == [step / 4 for step in range(len(episode.frames) - 1)]
