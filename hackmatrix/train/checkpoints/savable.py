"""Checks before training that a checkpoint can hold the state: a failed save would lose it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.train.checkpoints.digest import has_digest
from hackmatrix.train.checkpoints.named_arrays import named, names


def check_can_be_saved(shapes: Any) -> None:
    """Raises UserError for an array without elements, which Orbax does not write, for one whose
    dtype has no digest, and for two of the same name.
    """
    for name, count in Counter(names(shapes)).items():
        if count > 1:
            raise UserError(
                f"two arrays would be saved as {name}: a slash in a name counts as a level, so "
                "rename one of them"
            )
    for name, leaf in named(shapes).items():
        if not leaf.size:
            raise UserError(
                f"{name} has no elements, and checkpoints cannot store empty arrays: leave it "
                "out of the environment's states and the learner"
            )
        if not has_digest(leaf.dtype):
            raise UserError(
                f"{name} has dtype {leaf.dtype}, which checkpoints cannot store: use a dtype of 8, "
                "16 or 32 bits, and for complex numbers, separate real and imaginary parts"
            )
