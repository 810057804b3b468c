"""Code that programs call and do not contain, such as LAPACK's.

It is ready once something that calls it was lowered in the same process. A program that was found,
and not lowered, would end the process with its first call.
"""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp

# Kernels (Pallas) are in their programs.
_CALL = re.compile(r"custom_call @(?!(?:tpu_custom_call|mosaic_gpu_v2)\b)(\"[^\"]+\"|[\w.$-]+)")


def calls_of(lowered: jax.stages.Lowered) -> frozenset[str]:
    """The names of all code that a program calls."""
    return calls_in(lowered.as_text())


def calls_in(text: str) -> frozenset[str]:
    return frozenset(_CALL.findall(text))


def can_be_made_ready(calls: frozenset[str]) -> bool:
    """Whether they are ready from now on."""
    return not calls or calls <= _of_decomposition()


@functools.cache
def _of_decomposition() -> frozenset[str]:
    """Those that orthogonal parameters come from. They are ready once this has returned."""
    return calls_of(jax.jit(jnp.linalg.qr).lower(jax.ShapeDtypeStruct((2, 2), jnp.float32)))
