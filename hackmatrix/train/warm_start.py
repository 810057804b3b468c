"""The parameters of another agent, for a run that starts from them."""

from __future__ import annotations

import dataclasses
import operator
import shlex

import jax
import numpy as np

from hackmatrix import networks
from hackmatrix.envs import Environment
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.networks.actor_critic import Network, Params

Array = jax.Array
# The tolerance: a wider network adds up more numbers, which rounds differently.
_NEAR = 1e-3


def params_of(name: str, env: Environment, network: Network, key: Array) -> Params:
    """Returns the parameters of the policy of that name, for a network like its own or a wider one,
    whose additional parameters are drawn with the key.
    """
    params, about = files.read(name)
    file = f"start_from={name}"
    about.check_plays(env, file)
    theirs, ours = (dataclasses.asdict(spec) for spec in (about.spec, network.spec))
    # compute_dtype may differ: parameters are always float32. An MLP has no channels, and a file of
    # format 1 does not say how many there were.
    unread = {"compute_dtype", "channels"} if about.spec.network == "mlp" else {"compute_dtype"}
    others = [key for key in ours if theirs[key] != ours[key] and key not in unread]
    if not others:
        return network.fitted(params, file)
    if others == ["hidden_dim"] and theirs["hidden_dim"] < ours["hidden_dim"]:
        narrower = networks.make(about.spec, env)
        params = narrower.fitted(params, file)
        wider = widened(params, network.init(key))
        if wider and _do_the_same((narrower, params), (network, wider)):
            return wider
    raise UserError(
        f"{file} has a different network: start this run with "
        + " ".join(f"--config.{key}={shlex.quote(str(theirs[key]))}" for key in others)
    )


def widened(params: Params, first: Params) -> Params | None:
    """Widens `params` to the shapes of `first`, for a network that does the same: new features are
    computed as in `first`, but no old feature and no head reads them yet. Returns None if the
    shapes do not allow it.
    """

    def leaf(old: Array, new: Array) -> np.ndarray:
        wider = np.array(new)
        if wider.ndim:
            wider[..., : old.shape[-1]] = 0
        wider[tuple(slice(size) for size in old.shape)] = old
        return wider

    before, after = (jax.tree.map(np.shape, tree) for tree in (params, first))
    try:
        shrinks = jax.tree.map(operator.gt, before, after)
    except ValueError:  # the trees differ
        return None
    if any(jax.tree.leaves(shrinks)):
        return None
    return jax.tree.map(leaf, params, first)


def _do_the_same(*agents: tuple[Network, Params]) -> bool:
    """Whether both return the same logits and values for random observations."""
    rng = np.random.default_rng(0)
    shapes = agents[0][0].observation.items()
    parts = {name: rng.random((64, *shape), np.float32) for name, shape in shapes}
    was, now = (jax.jit(network.exactly)(params, parts) for network, params in agents)
    return all(np.allclose(a, b, atol=_NEAR, rtol=_NEAR) for a, b in zip(was, now, strict=True))
