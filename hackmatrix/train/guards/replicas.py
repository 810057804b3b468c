"""Compares the replicas of the learner on all devices, which must be equal at any time."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from hackmatrix.errors import UserError
from hackmatrix.parallel.mesh import ENVS, REPLICATED
from hackmatrix.train.checkpoints.digest import digest
from hackmatrix.train.checkpoints.named_arrays import named


class Diverged(UserError):
    """Devices differ in what should be the same on all. What was saved before was compared, so the
    run can go on from there.
    """


def check(tree: Any, mesh: Mesh) -> None:
    """Diverged if a leaf, which counts as the same on all devices, is not."""
    if mesh.size == 1:
        return
    digests = np.asarray(_digests(mesh)(tree))
    for name, column in zip(named(tree), digests.T, strict=True):
        usual = Counter(column.tolist()).most_common(1)[0][0]
        odd = [str(mesh.devices.flat[each]) for each in np.flatnonzero(column != usual)]
        if odd:
            raise Diverged(
                f"{name} is not the same on all devices: {', '.join(odd)} differ from the others; "
                "go on from the last checkpoint, which is good, and if it happens again, without "
                "that machine"
            )


@functools.cache
def _digests(mesh: Mesh) -> Any:
    """A program that gives u32[devices, leaves], on every device."""
    return jax.jit(
        jax.shard_map(
            lambda tree: jax.lax.all_gather(digest(tree), ENVS),
            mesh=mesh,
            in_specs=REPLICATED,
            out_specs=REPLICATED,
            check_vma=False,
        )
    )
