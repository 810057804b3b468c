"""What a checkpoint can hold, checked before training: to fail at the first save would lose it."""

from __future__ import annotations

from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.train.checkpoints.digest import has_digest
from hackmatrix.train.checkpoints.named_arrays import named


def check_can_be_saved(shapes: Any) -> None:
    """Raises UserError for an array without elements, which Orbax does not write, and for one of a
    type that has no digest.
    """
    for name, leaf in named(shapes).items():
        if not leaf.size:
            raise UserError(
                f"no checkpoint can have arrays without elements, as {name} is: leave them out of "
                "the environment's states and the learner"
            )
        if not has_digest(leaf.dtype):
            raise UserError(
                f"no checkpoint can have arrays of {leaf.dtype}, as {name} is: keep its numbers in "
                "types of 8, 16 or 32 bits, complex ones as their two parts"
            )
