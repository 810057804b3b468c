"""The default size of an update: environments, steps, minibatches, epochs and learning rate.

The reference is an update of 256 x 128 samples in 4 minibatches and 4 epochs. A larger batch keeps
the reference's minibatch, so its gradient noise, and grows by their number; it is seen fewer times,
but at least twice, for what is rare in it. The learning rate pays for the gradient steps that
remain: twice as many, half the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

REFERENCE_ENVS = 256
REFERENCE_STEPS = 128
REFERENCE_BATCH = REFERENCE_ENVS * REFERENCE_STEPS
REFERENCE_MINIBATCHES = 4
REFERENCE_EPOCHS = 4
REFERENCE_GRADIENT_STEPS = REFERENCE_MINIBATCHES * REFERENCE_EPOCHS
REFERENCE_LR = 2.5e-4

MOST_MINIBATCHES = 64
FEWEST_EPOCHS = 2
MOST_GROUPS = 64


@dataclass(frozen=True)
class Tuned:
    """Sizes that suit a kind of device. Simulated CPU devices share one machine, others do not."""

    num_envs: int
    num_steps: int
    is_per_device: bool


TUNED = {
    "cpu": Tuned(64, 64, is_per_device=False),
    "gpu": Tuned(512, 128, is_per_device=True),
    "tpu": Tuned(512, 128, is_per_device=True),  # 2048 on the 4 chips of a v4-8
}
UNTUNED = Tuned(REFERENCE_ENVS, REFERENCE_STEPS, is_per_device=False)


def groups(num_envs: int) -> int:
    """How many groups the environments form: a property of their number, not of the devices.

    Each group shuffles its own samples and gives an equal share to every minibatch. So any number
    of devices that divides the groups computes the same minibatches without moving data.
    """
    return _largest_divisor(num_envs, MOST_GROUPS)


def group_samples(num_envs: int, num_steps: int) -> int:
    """The samples of one group in an update, of which each minibatch takes an equal share."""
    return num_envs // groups(num_envs) * num_steps


def rollout(platform: str, devices: int, auto_tune: bool) -> tuple[int, int]:
    """num_envs and num_steps for the devices found; num_envs can be divided among them."""
    tuned = TUNED.get(platform, UNTUNED) if auto_tune else UNTUNED
    wanted = tuned.num_envs * (devices if tuned.is_per_device else 1)
    nearest = [wanted] if groups(wanted) % devices == 0 else nearest_num_envs(wanted, devices)
    return (nearest or [wanted])[-1], tuned.num_steps


def minibatches(num_envs: int, num_steps: int) -> int:
    """The minibatches of an epoch: as many as keep the reference's size, or the next fewer that
    take equal shares of every group.
    """
    wanted = REFERENCE_MINIBATCHES * _scale(num_envs * num_steps)
    return _largest_divisor(group_samples(num_envs, num_steps), min(wanted, MOST_MINIBATCHES))


def epochs(num_envs: int, num_steps: int) -> int:
    return max(FEWEST_EPOCHS, REFERENCE_EPOCHS // _scale(num_envs * num_steps))


def learning_rate(gradient_steps: int) -> float:
    """Goes down as gradient steps go up; fewer than the reference's do not raise it."""
    return REFERENCE_LR * min(1.0, REFERENCE_GRADIENT_STEPS / gradient_steps)


def nearest_num_envs(wanted: int, devices: int) -> list[int]:
    """The numbers of environments next to the wanted one, below and above, that can be divided
    among the devices. None exists for more devices than there can be groups.
    """
    if devices > MOST_GROUPS:
        return []
    below, above = wanted - 1, wanted + 1
    while below > 0 and groups(below) % devices:
        below -= 1
    while groups(above) % devices:
        above += 1
    return [below, above] if below > 0 else [above]


def nearest_num_minibatches(wanted: int, num_envs: int, num_steps: int) -> list[int]:
    """The numbers of minibatches next to the wanted one that take equal shares of every group."""
    samples = group_samples(num_envs, num_steps)
    if wanted >= samples:
        return [samples]
    above = samples // _largest_divisor(samples, (samples - 1) // wanted)
    return sorted({_largest_divisor(samples, wanted), above})


def _scale(batch: int) -> int:
    return max(1, batch // REFERENCE_BATCH)


def _largest_divisor(number: int, most: int) -> int:
    """The largest one up to `most`. The larger of two factors is found by the smaller one, as a
    number may have ten digits.
    """
    root = math.isqrt(number)
    for factor in range(-(-number // most), root + 1):
        if number % factor == 0:
            return number // factor
    return next(n for n in range(min(most, root), 0, -1) if number % n == 0)
