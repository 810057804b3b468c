from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """Gives JAX an empty compilation cache; yields the folder that this package uses in it."""
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path / "hackmatrix"
    jax.config.update("jax_compilation_cache_dir", before)
