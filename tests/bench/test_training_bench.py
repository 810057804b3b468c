"""The benchmark of training."""

from __future__ import annotations

from unittest.mock import Mock

import jax
import pytest

from hackmatrix.bench.training import measure_training


def test_what_is_measured_as_compiling_is_no_load_from_a_cache() -> None:
    class Compiled(Exception):
        pass

    def compile_program() -> None:
        assert not jax.config.values["jax_enable_compilation_cache"]
        raise Compiled

    assert jax.config.values["jax_enable_compilation_cache"]
    with pytest.raises(Compiled):
        measure_training(Mock(compile=compile_program), steps=1, chunk=1, seconds=0)
    assert jax.config.values["jax_enable_compilation_cache"]
