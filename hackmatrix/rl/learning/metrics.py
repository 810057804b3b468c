"""The metrics of an update that all actor-critic algorithms have."""

from __future__ import annotations

from hackmatrix.envs.metrics import PERCENT, Metric

ENTROPY, VF_LOSS = "train/entropy", "train/vf_loss"
EXPLAINED_VARIANCE, RETURN_SCALE = "train/explained_variance", "train/return_scale"
GRAD_NORM, LR = "train/grad_norm", "train/lr"

OF_POLICY = (Metric(ENTROPY, "entropy (nats)", column="entropy"),)
OF_VALUES = (
    Metric(EXPLAINED_VARIANCE, "explained variance", PERCENT),
    Metric(VF_LOSS, "value loss"),
    Metric(RETURN_SCALE, "return scale"),
)
OF_DESCENT = (Metric(GRAD_NORM, "gradient norm"), Metric(LR, "learning rate"))
