"""Whether all processes are about to do the same; if not, they would fail obscurely, or hang."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from hackmatrix.parallel.agreement import everyone
from hackmatrix.train.config import Config
from hackmatrix.train.program import Program
from hackmatrix.train.provenance import versions

_SOURCE = Path(__file__).parents[1]


class Different(Exception):
    """One process is not like the others; the message names it and says in what."""


def compare_settings(config: Config) -> None:
    """Different if a process has another configuration, other sources or other packages."""
    if jax.process_count() > 1:
        _compare({**asdict(config), "source files": _sources(), **versions()})


def compare_programs(program: Program) -> None:
    """Different if a process would compile another program."""
    if jax.process_count() > 1:
        _compare({"compiled program": _hash(program.lower().as_text().encode())})


def _compare(mine: dict[str, Any]) -> None:
    all_of_them = everyone(mine)
    lines = []
    for name in sorted({name for each in all_of_them for name in each}):
        values = [each.get(name) for each in all_of_them]
        usual = max(values, key=values.count)  # the first process's, if there are as many of each
        lines += [
            f"process {process} has {name} = {value}, the others have {usual}"
            for process, value in enumerate(values)
            if value != usual
        ]
    if lines:
        raise Different("\n".join(lines))


def _sources() -> str:
    files = {str(path.relative_to(_SOURCE)): path for path in _SOURCE.rglob("*.py")}
    return _hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
