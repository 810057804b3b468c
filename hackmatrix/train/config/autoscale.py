"""The default size of an update: environments, steps, minibatches, epochs and learning rate.

The reference is an update of 256 x 128 samples in 4 minibatches and 4 epochs. A larger batch keeps
the size of the reference's minibatches, and so the gradient noise, and has more of them. It gets
fewer epochs, but at least two, so that rare samples are learned from. More gradient steps than the
reference's lower the learning rate: twice as many steps, half the rate.
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
    """Sizes that suit a platform. `num_envs` is per device or in all: simulated CPU devices share
    one machine, other devices do not.
    """

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
    """Returns how many groups the environments form, which does not depend on the devices.

    Each group shuffles its own samples and gives an equal share to every minibatch. So any number
    of devices that divides the groups computes the same minibatches without moving data.
    """
    return _largest_divisor(num_envs, MOST_GROUPS)


def group_samples(num_envs: int, num_steps: int) -> int:
    """Returns the samples of one group in an update, which the minibatches share equally."""
    return num_envs // groups(num_envs) * num_steps


def rollout(platform: str, devices: int, auto_tune: bool) -> tuple[int, int]:
    """Returns num_envs and num_steps for the devices. They can share num_envs equally, unless
    there are more devices than groups.
    """
    tuned = TUNED.get(platform, UNTUNED) if auto_tune else UNTUNED
    wanted = tuned.num_envs * (devices if tuned.is_per_device else 1)
    nearest = [wanted] if groups(wanted) % devices == 0 else nearest_num_envs(wanted, devices)
    return (nearest or [wanted])[-1], tuned.num_steps


def minibatches(num_envs: int, num_steps: int) -> int:
    """Returns the number of minibatches: as many as keep the reference's size, but at most 64, or
    the next lower number that takes equal shares of every group.
    """
    wanted = REFERENCE_MINIBATCHES * _scale(num_envs * num_steps)
    return _largest_divisor(group_samples(num_envs, num_steps), min(wanted, MOST_MINIBATCHES))


def epochs(num_envs: int, num_steps: int) -> int:
    return max(FEWEST_EPOCHS, REFERENCE_EPOCHS // _scale(num_envs * num_steps))


def learning_rate(gradient_steps: int) -> float:
    """Returns the learning rate, which is inversely proportional to the gradient steps, but at most
    the reference's.
    """
    return REFERENCE_LR * min(1.0, REFERENCE_GRADIENT_STEPS / gradient_steps)


def nearest_num_envs(wanted: int, devices: int) -> list[int]:
    """Returns the next lower and the next higher number of environments that the devices can share
    equally; an empty list for more devices than there can be groups.
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
    """Returns the nearest numbers, below and above, that take equal shares of every group."""
    samples = group_samples(num_envs, num_steps)
    if wanted >= samples:
        return [samples]
    above = samples // _largest_divisor(samples, (samples - 1) // wanted)
    return sorted({_largest_divisor(samples, wanted), above})


def _scale(batch: int) -> int:
    return max(1, batch // REFERENCE_BATCH)


def _largest_divisor(number: int, most: int) -> int:
    """Returns the largest divisor of `number` up to `most`. It searches large divisors by their
    small cofactor, as a number may have ten digits.
    """
    root = math.isqrt(number)
    for factor in range(-(-number // most), root + 1):
        if number % factor == 0:
            return number // factor
    return next(n for n in range(min(most, root), 0, -1) if number % n == 0)
