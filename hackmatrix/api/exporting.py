"""A policy as two files for other programs, which say the same."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from hackmatrix import networks, plugins
from hackmatrix.envs.protocol import in_parts
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.policies.artifact import artifact
from hackmatrix.train.policies.policy import Policy, about
from hackmatrix.train.runs import atomic_files

_ROWS = 8  # of made-up observations that both are asked about
# By which part of the largest number of the network they may differ: it may round as it likes.
_SLACK = 0.03


def export(policy: Policy, folder: Path) -> tuple[Path, Path]:
    """Writes policy.npz and policy.jax, where what is said of them in NumPy is the network."""
    plain, compiled = folder / files.EXPORTED, folder / files.COMPILED
    for_jax = artifact(policy)
    if networks.is_in_numpy(policy.network.spec.network):
        _check_numpy(policy)
    folder.mkdir(parents=True, exist_ok=True)
    files.write(plain, policy.params, about(policy))
    atomic_files.write_lines(compiled, [for_jax])
    return plain, compiled


def _check_numpy(policy: Policy) -> None:
    """UserError where the network's forward pass without JAX is another function."""
    spec, env = policy.network.spec, policy.env
    network = networks.make(replace(spec, compute_dtype="float32"), env)
    seen = np.random.default_rng(0).random((_ROWS, env.observation_size), np.float32)
    expected = network(policy.params, in_parts(jnp.asarray(seen), env.observation))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / files.EXPORTED
        files.write(file, policy.params, about(policy))
        try:
            said = NumpyPolicy(file).outputs(seen)
        except Exception as error:  # of code that is not ours, so it may be any
            raise UserError(
                f"network={spec.network}: its `in_numpy` fails: {plugins.why(error)}; nothing was "
                "exported"
            ) from error
    for name, right, given in zip(("logits", "values"), expected, said, strict=True):
        largest, off = float(np.abs(right).max()), float(np.abs(right - given).max())
        if not off <= _SLACK * largest:
            raise UserError(
                f"network={spec.network}: its `in_numpy` is not the same function: of made-up "
                f"observations its {name} are up to {off:.3g} off, where none is above "
                f"{largest:.3g}; nothing was exported"
            )
