"""The digest changes with every change of a leaf, and with nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.train.checkpoints.digest import digest
from tests.train.checkpoints.small_state import on, state

TYPES = ("float32", "bfloat16", "int32", "uint32", "uint8", "bool")


def weights(size: int) -> np.ndarray:
    """The odd weight of each position: murmur3's finalizer, computed with NumPy."""
    number = np.arange(size, dtype=np.uint64)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        number = (number ^ (number >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    return number | np.uint64(1)


def array(name: str) -> np.ndarray:
    dtype = jnp.dtype(name)
    values = np.random.default_rng(0).integers(0, 2 if name == "bool" else 256, 24 * dtype.itemsize)
    return values.astype(np.uint8).view(dtype).reshape(4, 6)


@pytest.mark.parametrize("name", TYPES)
def test_a_flip_of_any_bit_changes_the_digest(name: str) -> None:
    original = array(name)
    width = 1 if name == "bool" else 8
    flips = [original]
    for byte in range(original.nbytes):
        for bit in range(width):
            flipped = original.copy()
            flipped.view(np.uint8).reshape(-1)[byte] ^= 1 << bit
            flips.append(flipped)
    digests = np.asarray(jax.vmap(digest)(np.stack(flips)))
    assert digests.shape == (1 + width * original.nbytes, 1)
    assert digests[0] not in digests[1:]


def test_reordered_elements_change_the_digest() -> None:
    original = array("float32")
    turned, swapped = original[::-1].copy(), original.copy()
    swapped[0, [0, 1]] = original[0, [1, 0]]
    digests = digest([original, turned, swapped, original.reshape(6, 4)]).tolist()
    assert len(set(digests[:3])) == 3
    assert digests[3] == digests[0]


def test_only_the_leaf_that_changes_has_another_digest() -> None:
    before = state(on(1))
    after = before.replace(players=before.players | {"steps": before.players["steps"].at[3].set(1)})
    changed = np.asarray(digest(before)) != np.asarray(digest(after))
    assert np.count_nonzero(changed) == 1


@pytest.mark.parametrize("devices", [2, 8])
def test_the_digest_does_not_depend_on_the_mesh(devices: int) -> None:
    np.testing.assert_array_equal(digest(state(on(devices))), digest(state(on(1))))


def test_the_digest_is_the_documented_weighted_sum() -> None:
    for name, bits in (("float32", np.uint32), ("bfloat16", np.uint16), ("uint8", np.uint8)):
        leaf = array(name)
        words = leaf.view(bits).reshape(-1).astype(np.uint64)
        by_hand = int(np.sum(words * weights(leaf.size) & np.uint64(0xFFFFFFFF))) % 2**32
        assert digest([leaf]).tolist() == [by_hand]
    keys = jax.random.split(jax.random.key(0), 3)
    assert digest([keys]).tolist() == digest([jax.random.key_data(keys)]).tolist()
