"""Which devices run a step of the game as one kernel."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from hackmatrix.parallel.gpus import GPUS, takes_kernels


@pytest.mark.parametrize(
    ("capability", "takes"),
    [("7.5", False), ("8.0", False), ("8.9", False), ("9.0", True), ("10.0", True), ("12.1", True)],
)
def test_nvidia_gpus_take_kernels_from_hopper_on(capability: str, takes: bool) -> None:
    assert takes_kernels(SimpleNamespace(platform="gpu", compute_capability=capability)) == takes


@pytest.mark.parametrize(
    "attributes", [{}, {"compute_capability": "gfx942"}], ids=["none", "gfx942"]
)
def test_gpus_without_a_cuda_capability_take_no_kernels(attributes: dict[str, str]) -> None:
    assert not takes_kernels(SimpleNamespace(platform="gpu", **attributes))


def test_tpus_take_kernels_and_cpus_do_not() -> None:
    assert takes_kernels(SimpleNamespace(platform="tpu"))
    assert not takes_kernels(jax.devices("cpu")[0])


def test_described_gpus_say_whether_they_take_kernels() -> None:
    takes = {each.model.name: each.has_kernels for each in GPUS}
    assert takes == {"a100": False, "h100": True, "h200": True}
