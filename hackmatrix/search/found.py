"""What looking ahead tells of boards, however it was done."""

from __future__ import annotations

import jax
from flax import struct

Array = jax.Array


class Found(struct.PyTreeNode):
    """What was found on [E] boards."""

    action: Array  # i32[E]: the one to take
    policy: Array  # f32[E, A]: probabilities of a policy that is better than the network's
    value: Array  # f32[E, A]: what the actions are worth; the board's value where none was tried
