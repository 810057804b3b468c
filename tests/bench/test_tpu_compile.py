"""The batched step compiles for a TPU slice, and each device steps its own boards."""

import pytest

from hackmatrix.bench import compiled, environment
from hackmatrix.parallel import slices

pytest.importorskip("libtpu", reason="libtpu, which compiles for TPUs, is not installed")
pytestmark = pytest.mark.tpu

HBM_A_CHIP = 32 * 2**30
MOST_LOOPS = 40


@pytest.mark.parametrize("name", slices.SLICES)
def test_a_slice_has_the_devices_and_hosts_that_it_says(name: str) -> None:
    described = slices.SLICES[name]
    devices = slices.mesh(described, "boards").devices.flat
    assert described.name == name
    assert described.chips == len(devices)
    assert described.hosts == len({device.process_index for device in devices})


def test_names_count_cores_or_chips_as_google_does() -> None:
    chips = {name: each.chips for name, each in slices.SLICES.items()}
    assert chips["v4-8"] == chips["v5p-8"] == chips["v5e-4"] == chips["v6e-4"] == 4
    assert max(chips.values()) == 64  # more than that cannot share the groups of boards


def test_the_step_needs_no_other_device_and_little_memory() -> None:
    mesh = slices.mesh(slices.SLICES["v4-8"], environment.BOARDS)
    facts = compiled.facts(environment.lower_trainers_step(4096, mesh, kernels=False).compile())
    print(facts)
    assert facts.collectives == ()
    assert facts.temporary_bytes < HBM_A_CHIP / 100
    assert facts.loops <= MOST_LOOPS
    assert facts.fusions > 0
