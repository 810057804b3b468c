"""The metrics of an update of proximal policy optimisation, and their healthy ranges."""

from __future__ import annotations

from hackmatrix.envs.metrics import PERCENT, Metric, Range, Section
from hackmatrix.rl.learning import descent

PG_LOSS, VF_LOSS = "train/pg_loss", "train/vf_loss"
TOTAL_LOSS = "train/total_loss"
ENTROPY, APPROX_KL, CLIP_FRAC = "train/entropy", "train/approx_kl", "train/clip_frac"
EXPLAINED_VARIANCE, RETURN_SCALE = "train/explained_variance", "train/return_scale"

SECTION = Section(
    "How it learns",
    (
        Metric(ENTROPY, "entropy, nats", column="entropy"),
        Metric(APPROX_KL, "approximate KL of an update", column="KL", digits=3),
        Metric(CLIP_FRAC, "clipped samples", PERCENT),
        Metric(EXPLAINED_VARIANCE, "variance explained by the values", PERCENT),
        Metric(PG_LOSS, "policy loss"),
        Metric(VF_LOSS, "value loss"),
        Metric(TOTAL_LOSS, "total loss"),
        Metric(RETURN_SCALE, "unit of the values"),
        *descent.METRICS,
    ),
)
HEALTH = (
    Range(APPROX_KL, high=0.08, if_above="the policy changes too fast; lower --config.lr"),
    Range(
        CLIP_FRAC,
        high=0.30,
        if_above="too much is clipped away; lower --config.lr or --config.update_epochs",
    ),
)
# Runs that learned well were seen between 0.005 and 0.012. A rate that is annealed ends below.
OF_A_STEADY_RATE = Range(
    APPROX_KL,
    low=0.002,
    if_below="the policy hardly changes; a higher --config.lr may learn faster",
)
