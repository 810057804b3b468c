"""Compares the processes of a run before they compute together: different ones could hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hackmatrix.errors import UserError


def compare(facts: Sequence[Mapping[str, Any]]) -> None:
    """UserError if the facts of the processes, in their order, are not all the same: it names those
    that are not like the others, and says in what.
    """
    lines = []
    for name in sorted({name for each in facts for name in each}):
        values = [each.get(name) for each in facts]
        usual = max(values, key=values.count)  # the first process's, if there are as many of each
        lines += [
            f"process {process} has {name} = {value}, the others have {usual}"
            for process, value in enumerate(values)
            if value != usual
        ]
    if lines:
        raise UserError("\n".join(lines))
