"""Compares the processes of a run before they compute together: different ones could hang."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hackmatrix.errors import UserError

_SOURCE = Path(__file__).parents[2]


class Inconsistent(UserError):
    """One process is not like the others; the message names it and says in what."""


def compare(facts: Sequence[Mapping[str, Any]]) -> None:
    """Inconsistent if the facts of the processes, in their order, are not all the same."""
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
        raise Inconsistent("\n".join(lines))


def source_hash() -> str:
    """A short hash of all source files of this package."""
    files = {str(path.relative_to(_SOURCE)): path for path in _SOURCE.rglob("*.py")}
    return short_hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
