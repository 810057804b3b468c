"""The batched step compiles for a TPU slice, and each device steps its own boards."""

import math

import pytest

from hackmatrix.bench import compiled, environment
from hackmatrix.parallel import slices

pytest.importorskip("libtpu", reason="libtpu, which compiles for TPUs, is not installed")
pytestmark = pytest.mark.tpu

HBM_A_CHIP = 32 * 2**30
MOST_LOOPS = 40


@pytest.mark.parametrize("name", slices.SLICES)
def test_a_slice_has_the_devices_that_its_name_says(name: str) -> None:
    described = slices.SLICES[name]
    mesh = slices.mesh(described, "boards")
    cores = int(name.removeprefix("v4-"))
    assert described.chips == mesh.size == cores // 2
    assert described.hosts == math.ceil(cores / 8)
    assert len({device.process_index for device in mesh.devices.flat}) == described.hosts


def test_the_step_needs_no_other_device_and_little_memory() -> None:
    mesh = slices.mesh(slices.SLICES["v4-8"], environment.BOARDS)
    facts = compiled.facts(environment.lower_trainers_step(4096, mesh, kernels=False).compile())
    print(facts)
    assert facts.collectives == ()
    assert facts.temporary_bytes < HBM_A_CHIP / 100
    assert facts.loops <= MOST_LOOPS
    assert facts.fusions > 0
