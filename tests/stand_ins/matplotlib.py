"""Gymnax imports matplotlib for most of a second, to draw games that nobody looks at here."""

import sys
from types import ModuleType

__path__: list[str] = []
pyplot, colors, animation = (ModuleType(name) for name in ("pyplot", "colors", "animation"))
for part in pyplot, colors, animation:
    sys.modules[f"{__name__}.{part.__name__}"] = part
