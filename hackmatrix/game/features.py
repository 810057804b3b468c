"""What is observed of a cell: one word, and the features that the word encodes."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import bits
from hackmatrix.game.fields import Field, Fields
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.state import MAX_HP

Array = jax.Array

# Codes for the content of a cell: 0 is nothing, 1 the first program and so on, then these. The kind
# of an enemy also counts from 1.
DATA, QUESTION, DATA_SIPHON, EXIT = range(1 + len(Program), 5 + len(Program))
CELL = Fields(
    kind=bits.KIND + 1, hp=bits.HP, stunned=1, from_siphon=1, turns=3,
    content=EXIT.bit_length(), is_program=1, points=bits.LABEL, spawn=bits.SPAWN,
    amount=bits.AMOUNT, energy=1, siphoned=1, centre=1,
)  # fmt: skip


class Feature(NamedTuple):
    """A field of the word divided by the unit, or 1 if no field is named. If a condition is named,
    the feature is 0 unless that field has this value.
    """

    field: str | None
    unit: int = 1
    condition: str | None = None
    value: int = 0


def _is(condition: str, value: int) -> Feature:
    return Feature(None, condition=condition, value=value)


FEATURES = [
    *(_is("kind", 1 + kind) for kind in range(4)),
    Feature("hp", MAX_HP), Feature("stunned"), Feature("from_siphon"),
    _is("content", DATA), Feature("is_program"), _is("content", QUESTION),
    Feature("points", 9), Feature("siphoned"),
    *(_is("content", 1 + program) for program in range(len(Program))),
    Feature("spawn", 9), Feature("turns", 4),
    Feature("amount", 3, "energy", 0), Feature("amount", 3, "energy", 1),
    _is("content", DATA_SIPHON), _is("content", EXIT), Feature("centre"),
]  # fmt: skip
EXIT_SEEN = FEATURES.index(_is("content", EXIT))


def _constants(feature: Feature) -> tuple[int, int, int, int, int]:
    """Returns the start and mask of the field, the constant that stands in for a missing field (1,
    else 0), and the mask of the condition and the bits that it requires there.
    """
    field = CELL[feature.field] if feature.field else Field(0, 0)
    condition = CELL[feature.condition] if feature.condition else Field(0, 0)
    one = int(feature.field is None)
    value = feature.value << condition.start
    return field.start, field.mask, one, condition.mask << condition.start, value


_CONSTANTS = np.array(list(map(_constants, FEATURES)), np.uint32).T
_SMALL = np.min_scalar_type(max(field.mask for field in CELL.values()))
UNIT = np.array([1 / each.unit for each in FEATURES], np.float32)


@outlined
def features_of(cell_words: Array) -> Array:
    """Returns the features of each cell: f32[..., 42] from u32[...]."""
    return number_of(cell_words[..., None]).astype(jnp.int32).astype(jnp.float32) * UNIT


@outlined
def small_numbers_of(cell_words: Array) -> Array:
    """Returns the features of each cell, not yet divided by their units: u8[..., 42]."""
    return number_of(cell_words[..., None]).astype(_SMALL)


def number_of(cell_words: Array, feature: int | slice = slice(None)) -> Array:
    """Returns a feature of cells u32[...], not yet divided by its unit."""
    start, mask, one, condition, value = (each[feature] for each in _CONSTANTS)
    return jnp.where(cell_words & condition == value, cell_words >> start & mask | one, 0)
