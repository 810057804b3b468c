"""Training: the loop around the compiled updates, and all that it reads and writes.

run = hackmatrix.train(config, ...)          # parameters: hackmatrix/api/training.py
"""

import importlib
import sys
from types import ModuleType
from typing import Any

from hackmatrix import plugins


class _Callable(ModuleType):
    """Makes this package callable: `hackmatrix.train(...)` trains an agent."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return plugins.load("hackmatrix.api.training:train")(*arguments, **settings)

    def __reduce__(self) -> Any:
        """Copies and pickles the package by its name, as functions are."""
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Callable
