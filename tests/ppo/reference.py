"""A second implementation of PPO, in NumPy and float64, from the papers' formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Params = dict[str, dict[str, Array]]


def advantages(
    rewards: Array, values: Array, ended: Array, last: Array, gamma: float, lam: float
) -> Array:
    """Returns f64[T, E]: weighted sums of the current and all later errors of the same episode."""
    steps, boards = rewards.shape
    result = np.zeros((steps, boards))
    following = np.concatenate([values[1:], last[None]])
    for board in range(boards):
        for start in range(steps):
            weight = 1.0
            for step in range(start, steps):
                end = ended[step, board]
                next_value = 0.0 if end else following[step, board]
                error = rewards[step, board] + gamma * next_value - values[step, board]
                result[start, board] += weight * error
                weight *= gamma * lam
                if end:
                    break
    return result


def unit(scale: Any, targets: Array) -> float:
    """Returns the reward that a value of 1 stands for, once the targets update the return scale."""
    mean_square = 0.99 * float(scale.mean_square) + 0.01 * np.square(targets).mean()
    return float(np.sqrt(mean_square / (0.99 * float(scale.weight) + 0.01)))


@dataclass
class Minibatch:
    observation: Array
    mask: Array
    action: Array
    log_prob: Array
    advantage: Array  # not yet normalised
    target: Array


def forward(params: Params, observation: Array) -> tuple[list[Array], Array, Array]:
    """Returns the input of every layer, the logits and the values."""
    inputs = [observation]
    for number in range(len(params) - 2):
        layer = params[f"Dense_{number}"]
        inputs.append(np.maximum(inputs[-1] @ layer["kernel"] + layer["bias"], 0))
    logits = inputs[-1] @ params["actor"]["kernel"] + params["actor"]["bias"]
    values = inputs[-1] @ params["critic"]["kernel"] + params["critic"]["bias"]
    return inputs, logits, values[:, 0]


def log_softmax(logits: Array, mask: Array) -> Array:
    """Returns the log-softmax over the valid actions, -inf elsewhere."""
    shifted = np.where(mask, logits, -np.inf)
    shifted = shifted - shifted.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def loss(params: Params, batch: Minibatch, settings: Any) -> tuple[float, Params, dict[str, float]]:
    """Returns the loss, its gradient by the chain rule, and its parts."""
    count = batch.action.size
    inputs, logits, values = forward(params, batch.observation)
    log_probs = log_softmax(logits, batch.mask)
    probs = np.exp(log_probs)
    log_prob = log_probs[np.arange(count), batch.action]
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    ratio = np.exp(log_prob - batch.log_prob)
    low, high = 1 - settings.clip_eps, 1 + settings.clip_eps
    unclipped, clipped = ratio * advantage, np.clip(ratio, low, high) * advantage
    finite = np.where(batch.mask, log_probs, 0)
    entropies = -(probs * finite).sum(-1)
    parts = {
        "train/pg_loss": -np.minimum(unclipped, clipped).mean(),
        "train/vf_loss": 0.5 * np.square(values - batch.target).mean(),
        "train/entropy": entropies.mean(),
    }
    total = (
        parts["train/pg_loss"]
        + settings.vf_coef * parts["train/vf_loss"]
        - settings.ent_coef * parts["train/entropy"]
    )
    by_log_prob = np.where(unclipped <= clipped, -unclipped, 0) / count
    chosen = np.eye(probs.shape[1])[batch.action]
    by_logits = by_log_prob[:, None] * (chosen - probs)
    by_logits += settings.ent_coef / count * probs * (finite + entropies[:, None])
    by_values = settings.vf_coef * (values - batch.target)[:, None] / count
    return total, _backwards(params, inputs, by_logits, by_values), parts


def _backwards(params: Params, inputs: list[Array], by_logits: Array, by_values: Array) -> Params:
    gradient = {
        "actor": {"kernel": inputs[-1].T @ by_logits, "bias": by_logits.sum(0)},
        "critic": {"kernel": inputs[-1].T @ by_values, "bias": by_values.sum(0)},
    }
    by_hidden = by_logits @ params["actor"]["kernel"].T + by_values @ params["critic"]["kernel"].T
    for number in reversed(range(len(params) - 2)):
        by_sum = by_hidden * (inputs[number + 1] > 0)
        gradient[f"Dense_{number}"] = {"kernel": inputs[number].T @ by_sum, "bias": by_sum.sum(0)}
        by_hidden = by_sum @ params[f"Dense_{number}"]["kernel"].T
    return gradient


class Adam:
    """Adam, with the global norm of the gradient clipped first."""

    def __init__(self, params: Params) -> None:
        self.steps = 0
        self.mean = {
            name: {k: np.zeros_like(v) for k, v in layer.items()} for name, layer in params.items()
        }
        self.square = {
            name: {k: np.zeros_like(v) for k, v in layer.items()} for name, layer in params.items()
        }

    def step(self, params: Params, gradient: Params, lr: float, max_norm: float) -> Params:
        norm = np.sqrt(
            sum(np.square(v).sum() for layer in gradient.values() for v in layer.values())
        )
        scale = min(1.0, max_norm / norm)
        self.steps += 1
        result: Params = {}
        for name, layer in params.items():
            result[name] = {}
            for kind, value in layer.items():
                slope = gradient[name][kind] * scale
                mean = self.mean[name][kind] = 0.9 * self.mean[name][kind] + 0.1 * slope
                square = self.square[name][kind] = (
                    0.999 * self.square[name][kind] + 0.001 * slope**2
                )
                mean = mean / (1 - 0.9**self.steps)
                square = square / (1 - 0.999**self.steps)
                result[name][kind] = value - lr * mean / (np.sqrt(square) + 1e-5)
        return result
