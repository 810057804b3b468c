"""Algorithms by name."""

from __future__ import annotations

from typing import Any

from hackmatrix import plugins
from hackmatrix.train.config.rules import ALGORITHMS


def find(name: str) -> Any:
    """The class of an algorithm (hackmatrix.rl.algorithm.Algorithm): one of ours by its name, any
    other by MODULE:NAME.
    """
    return plugins.load(ALGORITHMS.get(name, name))
