"""Algorithms by name."""

from __future__ import annotations

from typing import Any

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.train.config import Config
from hackmatrix.train.config.rules import ALGORITHMS

_MEMBERS = "init", "update", "acting", "sections", "vital", "health"


def find(name: str) -> Any:
    """The class of an algorithm (hackmatrix.rl.algorithm.Algorithm): one of ours by its name, any
    other by MODULE:NAME.
    """
    return plugins.load(ALGORITHMS.get(name, name))


def check(name: str, algorithm: Any, config: Config) -> None:
    """Raises UserError if it lacks what is asked of an algorithm."""
    if lacks := [member for member in _MEMBERS if not hasattr(algorithm, member)]:
        raise UserError(
            f"algorithm={name} has no {', '.join(lacks)}: hackmatrix.rl.algorithm.Algorithm says "
            "what they are"
        )
    inputs = getattr(algorithm, "inputs", ())
    if strange := [each for each in inputs if not hasattr(config, each)]:
        raise UserError(f"algorithm={name}: its `inputs` name no settings: {', '.join(strange)}")
