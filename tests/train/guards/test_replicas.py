"""The check that all devices have the same parameters."""

from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.parallel import mesh as meshes
from hackmatrix.train.guards.replicas import Diverged, check

MESH = meshes.over()


def tree(odd: dict[int, float]) -> Any:
    """Two leaves that count as the same on all devices; the second has other values on some."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    same = meshes.replicated(MESH)
    copies = [
        jax.device_put(values + odd.get(number, 0), device)
        for number, device in enumerate(MESH.devices.flat)
    ]
    second = jax.make_array_from_single_device_arrays(values.shape, same, copies)
    return {"a": meshes.placed(values, same), "b": {"kernel": second}}


def test_what_is_the_same_everywhere_passes() -> None:
    check(tree({}), MESH)


@pytest.mark.parametrize("device", [0, 5])
def test_the_first_leaf_that_differs_and_the_device_are_named(device: int) -> None:
    with pytest.raises(Diverged, match=rf"^b/kernel is not the same .*: \S+{device} differ"):
        check(tree({device: 1e-6}), MESH)
