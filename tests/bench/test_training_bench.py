"""The benchmark of training."""

from __future__ import annotations

from unittest.mock import Mock

import jax
import pytest

from configs import default
from hackmatrix.bench import measuring
from hackmatrix.bench.training import measure_training
from hackmatrix.errors import UserError


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


def test_an_algorithm_without_halves_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "Program", lambda *_: Mock(algorithm=object()))
    with pytest.raises(UserError, match="algorithm=ppo: an update is measured in its halves"):
        measuring.measure_training(default.get_config(), 0, Mock())
