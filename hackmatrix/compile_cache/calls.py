"""Code that compiled programs call but do not contain, such as LAPACK's.

It is ready once something that calls it was lowered in the same process. A program that was loaded
from the cache, without lowering, would crash the process at its first call.
"""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp

# Pallas kernels are contained in their programs.
_CALL = re.compile(r"custom_call @(?!(?:tpu_custom_call|mosaic_gpu_v2)\b)(\"[^\"]+\"|[\w.$-]+)")


def calls_of(lowered: jax.stages.Lowered) -> frozenset[str]:
    """Returns the names of all external code that a program calls."""
    return calls_in(lowered.as_text())


def calls_in(text: str) -> frozenset[str]:
    return frozenset(_CALL.findall(text))


def make_ready(calls: frozenset[str]) -> bool:
    """Makes the code ready if that is possible, and returns whether all of it is ready."""
    return not calls or calls <= _of_decomposition()


@functools.cache
def _of_decomposition() -> frozenset[str]:
    """Returns the calls of a QR decomposition, for orthogonal parameters, and makes them ready."""
    return calls_of(jax.jit(jnp.linalg.qr).lower(jax.ShapeDtypeStruct((2, 2), jnp.float32)))
