"""Checks of networks from outside of this package: one that cannot be trained is a UserError."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, PartitionSpec

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.networks.torso import Parts


def check_shapes(network: Network) -> None:
    """Raises UserError if the shapes or dtypes of its parameters or outputs do not allow training.
    Only traces the network.
    """
    try:
        fault = _fault_of_shapes(network)
    except Exception as error:  # code from outside may raise anything
        fault = (
            f"it fails on an observation ({plugins.why(error)}); a torso maps parts "
            "f32[..., *shape] to features f32[..., F], without state or random numbers"
        )
    if fault:
        raise UserError(f"network={network.spec.network}: {fault}")


def check_is_trainable(network: Network, types_are_checked: bool) -> None:
    """Raises UserError if its gradient cannot be traced in `shard_map`, with boards sharded over
    devices.
    """

    def gradient(params: Params, parts: Parts) -> Params:
        own = jax.lax.pcast(params, "boards", to="varying")
        gradient = jax.grad(lambda params: sum(map(jnp.sum, network(params, parts))))(own)
        return jax.lax.pmean(gradient, "boards")

    on_devices = jax.shard_map(
        gradient,
        mesh=AbstractMesh((1,), ("boards",)),
        in_specs=(PartitionSpec(), PartitionSpec("boards")),
        out_specs=PartitionSpec(),
        check_vma=types_are_checked,
    )
    try:
        params = jax.eval_shape(lambda: network.init(jax.random.key(0)))
        jax.eval_shape(on_devices, params, _abstract_parts(network, 2))
    except Exception as error:  # as above
        raise UserError(
            f"network={network.spec.network}: its gradient cannot be traced "
            f"({plugins.why(error)}); loops must be jax.lax.scan with an initial carry derived "
            "from their input, for example by jnp.zeros_like (for nn.RNN, pass initial_carry)"
        ) from error


def _fault_of_shapes(network: Network) -> str | None:
    params = jax.eval_shape(lambda: network.init(jax.random.key(0)))
    if others := sorted(params.keys() - {"params"}):
        return f"it has state ({', '.join(others)}), but only parameters are trained and saved"
    for path, leaf in jax.tree.leaves_with_path(params):
        if leaf.dtype != jnp.float32:
            return f"its parameter {jax.tree_util.keystr(path)} is {leaf.dtype}, not float32"
    for batch in (2,), (3, 2):
        jax.eval_shape(network, params, _abstract_parts(network, *batch))
    return None


def _abstract_parts(network: Network, *batch: int) -> dict[str, jax.ShapeDtypeStruct]:
    return {
        name: jax.ShapeDtypeStruct((*batch, *shape), jnp.float32)
        for name, shape in network.observation.items()
    }
