"""Draws the initial parameters of a network with a cached program, in a process of its own."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hackmatrix import envs
from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.networks import Spec, make
from hackmatrix.networks.actor_critic import Network

NETWORK = make(Spec("mlp", 4, 1, 4, False, "float32"), envs.make("hackmatrix"))


def draw() -> tuple[list[Any], bool]:
    """Returns the parameters, and whether the program was traced to draw them."""
    is_traced = False

    def init(key: Any) -> Any:
        nonlocal is_traced
        is_traced = True
        return NETWORK.init(key)

    made_of = functools.partial(Network.init, NETWORK)
    params = CachedJit(jax.jit(init), made_of)(np.zeros(2, np.uint32))
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(params)], is_traced


if __name__ == "__main__":
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(draw()))
