"""The cache of compiled programs, which later starts load."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "JAX_COMPILATION_CACHE_DIR"


def keep_compiled_programs(directory: str | None = None) -> None:
    """Makes JAX cache what it compiles in the directory, by default in the user's cache, unless the
    environment names one. JAX reads the variable on import; if it is imported already, its setting
    is updated.
    """
    if _NAME not in os.environ:
        try:
            os.environ[_NAME] = directory or _own_directory()
        except (RuntimeError, OSError):  # not every user has a home, or may write to it
            return
    jax = sys.modules.get("jax")
    if jax and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", os.environ[_NAME])


def _own_directory() -> str:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    own = caches / "hackmatrix" / "jax"
    own.mkdir(parents=True, exist_ok=True)
    return str(own)
