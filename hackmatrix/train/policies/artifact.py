"""A policy as a `jax.export` artifact: one file that runs wherever JAX does, without this project.

    policy = jax.export.deserialize(open("policy.jax", "rb").read())
    said = policy.call(observation, mask)   # f32[B, N] and bool[B, A], for any B
    said["action"], said["logits"], said["value"]   # i32[B], f32[B, A] and f32[B]

`action` is the likeliest valid one; the logits are those of all actions, valid or not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import export

from hackmatrix.envs.protocol import in_parts
from hackmatrix.rl import distributions
from hackmatrix.train.policies.policy import Policy

Array = jax.Array
_PLATFORMS = ("cpu", "cuda", "tpu")


def artifact(policy: Policy) -> bytes:
    """Exports the policy with its parameters; it is compiled where it is loaded."""

    def said(observation: Array, mask: Array) -> dict[str, Array]:
        parts = in_parts(observation, policy.env.observation)
        logits, value = policy.network(policy.params, parts)
        action = distributions.masked(logits, mask).mode().astype(jnp.int32)
        return {"action": action, "logits": logits, "value": value}

    (boards,) = export.symbolic_shape("boards")
    observation = jax.ShapeDtypeStruct((boards, policy.env.observation_size), jnp.float32)
    mask = jax.ShapeDtypeStruct((boards, policy.env.num_actions), jnp.bool_)
    exported = export.export(jax.jit(said), platforms=_PLATFORMS)(observation, mask)
    return bytes(exported.serialize())
