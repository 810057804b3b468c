"""Exports a policy to two equivalent files for other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from hackmatrix import networks, plugins, whole_files
from hackmatrix.envs import Environment
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.networks.in_numpy import agree
from hackmatrix.rl.draws import seed_key
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.policies.artifact import artifact
from hackmatrix.train.policies.policy import Policy, about, outputs

_ROWS = 8  # observations on which both forward passes are compared


def export(policy: Policy, folder: Path) -> tuple[Path, Path]:
    """Writes policy.npz and policy.jax; older ones are replaced when both are written. Raises
    UserError, and writes nothing, if the network's forward pass in NumPy is another function, or if
    what the network computes for an observation depends on how many others there are, or on which.
    """
    if "\0" in str(folder):
        raise UserError(f"{str(folder)!r} cannot be the name of a directory")
    plain, compiled = folder / files.EXPORTED, folder / files.COMPILED
    if networks.numpy_address(policy.network.spec.network):
        _check_numpy(policy)
    metadata = replace(about(policy), example=_example(policy))
    contents = {plain: [files.content(policy.params, metadata)], compiled: [_compiled(policy)]}
    folder.mkdir(parents=True, exist_ok=True)
    whole_files.write(contents)
    return plain, compiled


def _check_numpy(policy: Policy) -> None:
    spec = policy.network.spec
    seen = _made_up(policy.env, is_ours=spec.network in networks.NETWORKS)
    for name, right, given in zip(
        ("logits", "values"), outputs(policy, seen), _in_numpy(policy, seen), strict=True
    ):
        if not agree(given, right):
            largest = np.abs(right[np.isfinite(right)]).max(initial=0)
            raise UserError(
                f"network={spec.network}: its `in_numpy` computes another function: on random "
                f"observations its {name} differ by up to {np.abs(given - right).max():.3g}, and "
                f"the largest is {largest:.3g}; nothing was exported"
            )


def _made_up(env: Environment, is_ours: bool) -> np.ndarray:
    """Returns observations of random numbers from 0 to 1, the range that our networks are made for.
    Networks from outside also get the first observations of games, which may have any range.
    """
    seen = np.random.default_rng(0).random((_ROWS, env.observation_size), np.float32)
    if is_ours:
        return seen
    games = env.reset(jax.random.key_data(jax.random.split(seed_key(0), _ROWS)))
    return np.vstack([seen, np.asarray(env.observe(games))])


def _example(policy: Policy) -> tuple[list[float], list[float]] | None:
    """Returns an observation and its logits, if the network is from outside of this package: its
    module may change. They are the largest logits of several observations, as `_check_numpy` allows
    a fraction of these.
    """
    if policy.network.spec.network in networks.NETWORKS:
        return None
    seen = _made_up(policy.env, is_ours=False)
    logits, _ = outputs(policy, seen)
    row = np.abs(np.where(np.isfinite(logits), logits, 0)).max(-1).argmax()
    alone = np.vstack([outputs(policy, seen[[each]])[0] for each in range(len(seen))])
    if not agree(alone, logits):
        raise UserError(
            f"network={policy.network.spec.network}: what it computes for an observation depends "
            "on the others of the batch; nothing was exported"
        )
    return seen[row].tolist(), logits[row].tolist()


def _compiled(policy: Policy) -> bytes:
    """Returns the content of policy.jax, a program that takes any number of observations."""
    network = policy.network.spec.network
    if network in networks.NETWORKS:
        return artifact(policy)
    what = f"network={network}: no {files.COMPILED} can be made of it"
    then = (
        "; it may neither compute with the number of observations nor call Python "
        "(jax.debug.print); nothing was exported"
    )
    with plugins.as_user_error(what, then):
        return artifact(policy)


def _in_numpy(policy: Policy, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the logits and values of the forward pass in NumPy."""
    network = policy.network.spec.network
    what = f"network={network}: its `in_numpy` fails with parameters read from a file"
    with plugins.as_user_error(what, then="; nothing was exported"):
        return NumpyPolicy.of(files.as_read(policy.params), about(policy)).outputs(seen)
