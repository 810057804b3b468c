"""Which devices take a step of the game as one kernel."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from hackmatrix.parallel.gpus import GPUS, takes_kernels


@pytest.mark.parametrize(
    ("capability", "does"),
    [("7.5", False), ("8.0", False), ("8.9", False), ("9.0", True), ("10.0", True), ("12.1", True)],
)
def test_nvidias_gpus_take_kernels_from_hopper_on(capability: str, does: bool) -> None:
    assert takes_kernels(SimpleNamespace(platform="gpu", compute_capability=capability)) == does


@pytest.mark.parametrize("told", [{}, {"compute_capability": "gfx942"}], ids=["none", "gfx942"])
def test_other_gpus_take_none(told: dict[str, str]) -> None:
    assert not takes_kernels(SimpleNamespace(platform="gpu", **told))


def test_tpus_take_them_and_cpus_do_not() -> None:
    assert takes_kernels(SimpleNamespace(platform="tpu"))
    assert not takes_kernels(jax.devices("cpu")[0])


def test_gpus_that_are_described_say_what_they_would_take() -> None:
    takes = {each.model.name: each.has_kernels for each in GPUS}
    assert takes == {"a100": False, "h100": True, "h200": True}
