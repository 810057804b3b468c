"""Several small numbers in one word of 32 bits."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.bits import WORD

Array = jax.Array


class Field(NamedTuple):
    """The bits of a word that hold one of its numbers."""

    start: int
    bits: int

    @property
    def mask(self) -> int:
        """The mask of the number after it is shifted down to bit 0."""
        return (1 << self.bits) - 1


class Fields(dict[str, Field]):
    """The fields of a word by name; `bits` are their widths, from the lowest bit up."""

    def __init__(self, **bits: int) -> None:
        needed = sum(bits.values())
        assert needed <= WORD, f"{', '.join(bits)} need {needed} bits, but a word has {WORD}"
        fields = map(Field, itertools.accumulate(bits.values(), initial=0), bits.values())
        super().__init__(zip(bits, fields, strict=True))

    def pack(self, **numbers: Any) -> Array:
        """Returns the word that holds these numbers; fields that are not given are 0."""
        word = jnp.uint32(0)
        for name, number in numbers.items():
            word = word | number.astype(jnp.uint32) << np.uint32(self[name].start)
        return word

    def unpack(self, word: Array) -> dict[str, Array]:
        """Returns the numbers that a word holds, as i32."""
        return {
            name: (word >> np.uint32(field.start) & np.uint32(field.mask)).astype(jnp.int32)
            for name, field in self.items()
        }
