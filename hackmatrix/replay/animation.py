"""An episode as an animated GIF."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from hackmatrix.envs.drawing import looks
from hackmatrix.envs.drawing.pictures import picture
from hackmatrix.envs.headless.view import Json
from hackmatrix.replay.record import Episode

_MS_A_TURN = 350
_MS_AT_THE_END = 2500
# The few colours that pictures are painted with, so that none is lost.
_PALETTE = np.unique(
    np.array(
        [looks.INK, looks.FAINT, looks.FLOOR, looks.LINES, *looks.COLOURS.values()],
        np.uint8,
    ),
    axis=0,
)


def pictures(episode: Episode, most: int) -> list[np.ndarray]:
    """So many of its boards: the first, the last and some spread evenly between them."""
    return [picture(seen) for seen in _boards(episode, most)]


def gif(episode: Episode, most: int | None = None) -> bytes:
    """It goes on for ever, and stays at the end of the game for a while."""
    boards = _boards(episode, most or len(episode.frames))
    lengths = [*[_MS_A_TURN] * (len(boards) - 1), _MS_AT_THE_END]
    images = (_image(picture(seen)) for seen in boards)  # each when it is written: they are large
    out = io.BytesIO()
    next(images).save(out, "GIF", save_all=True, append_images=images, duration=lengths, loop=0)
    return out.getvalue()


def _boards(episode: Episode, most: int) -> list[Json]:
    last = len(episode.frames) - 1
    turns = dict.fromkeys(np.linspace(0, last, min(most, last + 1)).round().astype(int).tolist())
    return [episode.frames[turn].seen for turn in turns]


def _image(pixels: np.ndarray) -> Image.Image:
    """Of u8[H, W, 3] in the colours of the palette."""
    numbers = np.searchsorted(_as_numbers(_PALETTE), _as_numbers(pixels))
    image = Image.frombytes("P", pixels.shape[1::-1], numbers.astype(np.uint8).tobytes())
    image.putpalette(_PALETTE.tobytes())
    return image


def _as_numbers(colours: np.ndarray) -> np.ndarray:
    """One number a colour, in the order in which np.unique sorts them."""
    return colours.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
