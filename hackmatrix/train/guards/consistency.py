"""Compares the processes of a run before they compute together: if they differ, they may hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hackmatrix.errors import UserError


def compare(facts: Sequence[Mapping[str, Any]]) -> None:
    """Raises UserError unless all processes have the same facts, which are in process order. The
    message names the processes that differ from the others, and how.
    """
    lines = []
    for name in sorted({name for each in facts for name in each}):
        values = [each.get(name) for each in facts]
        usual = max(values, key=values.count)  # in a tie, the value of the lower process index
        lines += [
            f"process {process} has {name} = {value}, the others have {usual}"
            for process, value in enumerate(values)
            if value != usual
        ]
    if lines:
        raise UserError("\n".join(lines))
