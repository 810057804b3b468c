"""HackMatrix: the game, its environments, and the training of agents that play it.

    run = hackmatrix.train(network="conv", time_limit_minutes=3)
    agent = hackmatrix.load("policies/winner")

They are imported on first use, as importing JAX takes seconds.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from hackmatrix.compile_cache import sources as _sources  # noqa: F401  # isort: skip  (before all else)
from hackmatrix import machine
from hackmatrix.errors import UserError

if TYPE_CHECKING:
    from hackmatrix.api.agent import Agent
    from hackmatrix.api.loading import load
    from hackmatrix.api.results import Results
    from hackmatrix.api.run import Run
    from hackmatrix.api.training import train

__all__ = ["Agent", "Results", "Run", "UserError", "load", "train"]

_OFFERED = {
    "Agent": "hackmatrix.api.agent",
    "Results": "hackmatrix.api.results",
    "Run": "hackmatrix.api.run",
    "load": "hackmatrix.api.loading",
}


if not TYPE_CHECKING:  # which would take any name to exist

    def __getattr__(name: str) -> Any:
        if name == "train":  # the package of that name, which is callable
            return importlib.import_module("hackmatrix.train")
        if name in _OFFERED:
            return getattr(importlib.import_module(_OFFERED[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _register_with_gymnasium() -> None:
    """Registers by name: neither the environments nor JAX are imported before one is made."""
    import gymnasium

    gymnasium.register(
        id="HackMatrix-v0",
        entry_point="hackmatrix.envs.gymnasium_env:HackMatrixEnv",
        vector_entry_point="hackmatrix.envs.gymnasium_vector:HackMatrixVectorEnv",
    )


machine.leave_missing_tpu()
with contextlib.suppress(ImportError):  # it is optional, and may be broken
    _register_with_gymnasium()
