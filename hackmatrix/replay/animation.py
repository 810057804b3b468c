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
# All colours of the pictures, so that the GIF loses none.
_PALETTE = np.unique(np.array([*looks.ALL.values()], np.uint8), axis=0)


def pictures(episode: Episode, most: int) -> list[np.ndarray]:
    """Returns at most so many of its boards: the first, the last and others spread evenly."""
    return [picture(seen) for seen in _boards(episode, most)]


def gif(episode: Episode, most: int | None = None) -> bytes:
    """Returns an animation that loops forever, and pauses at the end of the game."""
    boards = _boards(episode, most or len(episode.frames))
    lengths = [*[_MS_A_TURN] * (len(boards) - 1), _MS_AT_THE_END]
    images = (_image(picture(seen)) for seen in boards)  # lazily, as they are large
    out = io.BytesIO()
    next(images).save(out, "GIF", save_all=True, append_images=images, duration=lengths, loop=0)
    return out.getvalue()


def _boards(episode: Episode, most: int) -> list[Json]:
    last = len(episode.frames) - 1
    turns = dict.fromkeys(np.linspace(0, last, min(most, last + 1)).round().astype(int).tolist())
    return [episode.frames[turn].seen for turn in turns]


def _image(pixels: np.ndarray) -> Image.Image:
    """Makes an image from u8[H, W, 3] in the colours of the palette."""
    numbers = np.searchsorted(_as_numbers(_PALETTE), _as_numbers(pixels))
    image = Image.frombytes("P", pixels.shape[1::-1], numbers.astype(np.uint8).tobytes())
    image.putpalette(_PALETTE.tobytes())
    return image


def _as_numbers(colours: np.ndarray) -> np.ndarray:
    """Returns one number per colour; they sort as np.unique sorts colours."""
    return colours.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
