"""Compiled programs are kept from one start to the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "JAX_COMPILATION_CACHE_DIR"


def keep_compiled_programs(directory: str | None = None) -> None:
    """Lets JAX keep what it compiles in the directory, by default in the user's cache, unless the
    environment says where. JAX reads that when it is imported; if it has been already, it is told.
    """
    if _NAME not in os.environ:
        try:
            os.environ[_NAME] = directory or str(_caches() / "hackmatrix" / "jax")
        except RuntimeError:  # not every user has a home
            return
    jax = sys.modules.get("jax")
    if jax and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", os.environ[_NAME])


def _caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
