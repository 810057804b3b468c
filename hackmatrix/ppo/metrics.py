"""The metrics of an update of proximal policy optimisation, and their healthy ranges."""

from __future__ import annotations

from hackmatrix.envs.metrics import PERCENT, Metric, Range, Section
from hackmatrix.rl.learning.metrics import OF_DESCENT, OF_POLICY, OF_VALUES

PG_LOSS, TOTAL_LOSS = "train/pg_loss", "train/total_loss"
APPROX_KL, CLIP_FRAC = "train/approx_kl", "train/clip_frac"

SECTION = Section(
    "How it learns",
    (
        *OF_POLICY,
        Metric(APPROX_KL, "approximate KL, mean over minibatches", column="KL", digits=3),
        Metric(CLIP_FRAC, "clip fraction", PERCENT),
        Metric(PG_LOSS, "policy loss"),
        *OF_VALUES,
        Metric(TOTAL_LOSS, "total loss"),
        *OF_DESCENT,
    ),
)
HEALTH = (
    Range(APPROX_KL, high=0.08, if_above="the policy changes too fast; lower --config.lr"),
    Range(
        CLIP_FRAC,
        high=0.30,
        if_above="too many samples are clipped; lower --config.lr or --config.update_epochs",
    ),
)
# Runs that learned well had values from 0.005 to 0.012. With an annealed rate they end lower.
CONSTANT_LR_HEALTH = Range(
    APPROX_KL,
    low=0.002,
    if_below="the policy hardly changes; a higher --config.lr may learn faster",
)
