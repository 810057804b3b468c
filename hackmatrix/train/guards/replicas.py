"""Compares the replicas of the learner on all devices, which must always be equal."""

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
    """Replicas differ between devices. Every checkpoint was compared before it was saved, so the
    run can resume from the last one.
    """


def check(tree: Any, mesh: Mesh) -> None:
    """Raises Diverged if a leaf that should be replicated differs between devices."""
    if mesh.size == 1:
        return
    digests = np.asarray(_digests(mesh)(tree))
    for name, column in zip(named(tree), digests.T, strict=True):
        usual = Counter(column.tolist()).most_common(1)[0][0]
        odd = [str(mesh.devices.flat[each]) for each in np.flatnonzero(column != usual)]
        if odd:
            raise Diverged(
                f"{name} is not the same on all devices: {', '.join(odd)} differ from the others; "
                "resume from the last checkpoint, if there is one: it is good. If it happens "
                "again, leave that machine out; or, if the algorithm has types_are_checked = "
                "False, see that its update returns the same learner on all devices"
            )


@functools.cache
def _digests(mesh: Mesh) -> Any:
    """Returns a program that computes the digests, u32[devices, leaves], on every device."""
    return jax.jit(
        jax.shard_map(
            lambda tree: jax.lax.all_gather(digest(tree), ENVS),
            mesh=mesh,
            in_specs=REPLICATED,
            out_specs=REPLICATED,
            check_vma=False,
        )
    )
