"""The settings of proximal policy optimisation."""

from __future__ import annotations

from typing import Protocol

from hackmatrix.rl.learning.settings import Settings as Common


class Settings(Common, Protocol):
    """The part of a run's configuration that PPO reads; configs/default.py explains it."""

    @property
    def clip_eps(self) -> float: ...
    @property
    def ent_coef(self) -> float: ...
    @property
    def ent_coef_at_end(self) -> float: ...
