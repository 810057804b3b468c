"""A recorded game, for sinks that show games."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

TURNS = 9


class PicturedGame:
    """A game whose boards each have a single shade, lighter than that of the board before."""

    total = 7.5

    def page(self) -> str:
        return "a page"

    def pictures(self, most: int) -> list[np.ndarray]:
        return [np.full((8, 6, 3), 20 * turn, np.uint8) for turn in range(min(most, TURNS))]

    def film(self, most: int) -> bytes:
        first, *rest = map(Image.fromarray, self.pictures(most))
        out = io.BytesIO()
        first.save(out, "GIF", save_all=True, append_images=rest)
        return out.getvalue()
