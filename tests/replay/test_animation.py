"""An episode as an animated GIF, read by Pillow."""

from __future__ import annotations

import io
import weakref

import numpy as np
import pytest
from PIL import Image

from hackmatrix.envs.drawing.pictures import picture
from hackmatrix.envs.headless.view import Json
from hackmatrix.replay import animation
from tests.replay.short_game import short_game


def test_a_long_game_is_shown_by_some_boards_from_the_first_to_the_last() -> None:
    episode = short_game()
    few = animation.pictures(episode, 3)
    assert len(few) == 3
    np.testing.assert_array_equal(few[0], picture(episode.frames[0].seen))
    np.testing.assert_array_equal(few[-1], picture(episode.frames[-1].seen))
    assert len(animation.pictures(episode, 99)) == len(episode.frames)


def test_pictures_are_drawn_as_they_are_written_and_freed_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All pictures of a long game together take gigabytes."""
    drawn: list[weakref.ref[np.ndarray]] = []

    def draw(seen: Json) -> np.ndarray:
        assert sum(each() is not None for each in drawn) < 3
        drawn.append(weakref.ref(pixels := picture(seen)))
        return pixels

    monkeypatch.setattr(animation, "picture", draw)
    animation.gif(short_game())
    assert len(drawn) == len(short_game().frames)


def test_every_turn_is_a_frame_in_its_own_colours_and_the_last_is_shown_longer() -> None:
    episode = short_game()
    content = animation.gif(episode)
    lengths = []
    with Image.open(io.BytesIO(content)) as image:
        assert (image.format, image.n_frames) == ("GIF", len(episode.frames))  # type: ignore[attr-defined]
        assert image.info["loop"] == 0
        for number, frame in enumerate(episode.frames):
            image.seek(number)
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture(frame.seen))
            lengths.append(image.info["duration"])
    assert set(lengths[:-1]) == {350}
    assert lengths[-1] > 2000
    assert len(content) < 10_000 * len(episode.frames)
