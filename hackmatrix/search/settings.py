"""The settings of expert iteration."""

from __future__ import annotations

from typing import Protocol

from hackmatrix.rl.learning.settings import Settings as Common


class Settings(Common, Protocol):
    """The part of a run's configuration that `Expert` reads; configs/default.py explains it."""

    @property
    def simulations(self) -> int: ...
