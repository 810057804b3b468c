"""The clipped loss of proximal policy optimisation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.ppo import metrics
from hackmatrix.ppo.settings import Settings
from hackmatrix.rl import distributions
from hackmatrix.rl.learning.metrics import ENTROPY, VF_LOSS

Array = jax.Array


class Samples(struct.PyTreeNode):
    """What the loss needs of the steps of a minibatch: leaves [samples, ...]."""

    seen: Any  # the encoded observation and mask
    action: Array
    log_prob: Array  # of the action under the policy that took it
    advantage: Array  # normalised over the whole minibatch
    target: Array  # for the value, in units of the return scale


def clipped_loss(
    logits: Array,
    values: Array,
    mask: Array,
    samples: Samples,
    settings: Settings,
    entropy_weight: Array | float,
) -> tuple[Array, dict[str, Array]]:
    """Returns the mean loss over the samples, and its metrics.

    Values and targets are both in units of the return scale.
    """
    choice = distributions.masked(logits, mask)
    log_ratio = choice.log_prob(samples.action) - samples.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - settings.clip_eps, 1 + settings.clip_eps)
    pg_loss = -jnp.minimum(ratio * samples.advantage, clipped * samples.advantage).mean()
    vf_loss = 0.5 * jnp.square(values - samples.target).mean()
    entropy = choice.entropy().mean()
    total = pg_loss + settings.vf_coef * vf_loss - entropy_weight * entropy
    return total, {
        metrics.PG_LOSS: pg_loss,
        VF_LOSS: vf_loss,
        ENTROPY: entropy,
        metrics.APPROX_KL: (jnp.expm1(log_ratio) - log_ratio).mean(),
        metrics.CLIP_FRAC: (jnp.abs(ratio - 1) > settings.clip_eps).mean(),
        metrics.TOTAL_LOSS: total,
    }
