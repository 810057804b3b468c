"""Networks from outside of this package: those that cannot be trained are refused in a line."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, PartitionSpec

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.networks.torso import Parts


def check_shapes(network: Network) -> None:
    """Raises UserError if it cannot be trained, by shapes and types alone."""
    try:
        fault = _fault_of_shapes(network)
    except Exception as error:  # of code that is not ours, so it may be any
        fault = (
            f"it fails, given an observation ({plugins.why(error)}); a torso gives "
            "features f32[..., F] of parts f32[..., *shape], without memory or chance"
        )
    if fault:
        raise UserError(f"network={network.spec.network}: {fault}")


def check_is_trainable(network: Network, types_are_checked: bool) -> None:
    """Raises UserError if no gradient leads through it, of boards that are split among devices."""

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
        params = jax.eval_shape(network.init, jax.random.key(0))
        jax.eval_shape(on_devices, params, _some_parts(network, 2))
    except Exception as error:  # as above
        raise UserError(
            f"network={network.spec.network}: no gradient leads through it ({plugins.why(error)}); "
            "loops must be jax.lax.scan, and begin with what is made of their input, such as "
            "jnp.zeros_like (nn.RNN: its initial_carry)"
        ) from error


def _fault_of_shapes(network: Network) -> str | None:
    params = jax.eval_shape(network.init, jax.random.key(0))
    if others := sorted(params.keys() - {"params"}):
        return f"it keeps {', '.join(others)}, but parameters alone are trained and saved"
    for path, leaf in jax.tree.leaves_with_path(params):
        if leaf.dtype != jnp.float32:
            return f"its parameter {jax.tree_util.keystr(path)} is {leaf.dtype}, not float32"
    for batch in (2,), (3, 2):
        jax.eval_shape(network, params, _some_parts(network, *batch))
    return None


def _some_parts(network: Network, *batch: int) -> dict[str, jax.ShapeDtypeStruct]:
    return {
        name: jax.ShapeDtypeStruct((*batch, *shape), jnp.float32)
        for name, shape in network.observation.items()
    }
