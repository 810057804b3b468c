"""The protocol of algorithms: what the training loop calls."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import jax

from hackmatrix.envs.metrics import Range, Section, Trend
from hackmatrix.networks.actor_critic import Params
from hackmatrix.rl.rollout import Players
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array


class Algorithm(Protocol):
    """Built as ALGORITHM(env, network, config, axis), with the configuration of the run and the
    name of the mesh axis over which environments are split.

    `update` runs inside of `jax.shard_map`, with this device's players: it plays and learns, and
    combines over the axis what has to be the same on all devices, gradients by
    `hackmatrix.rl.gradients.mean_gradient`; by itself JAX would add them up. One that calls what
    `shard_map`'s check of types takes for a mistake says `types_are_checked = False`.

    Settings are constants of the compiled program, unless it names some of them as its `inputs`.
    For `update` it is built with a configuration that has f32 scalars in their place, which it may
    compute with but not branch on; then another of their values needs no other program.
    """

    # The metrics of an update, and the tags of those that are finite while the learner is sound.
    sections: ClassVar[tuple[Section, ...]]
    vital: ClassVar[tuple[str, ...]]

    @property
    def health(self) -> tuple[Range | Trend, ...]:
        """Where metrics are healthy."""

    def init(self, key: Array) -> Any:
        """The first learner: what is learned, and what the next update depends on besides the
        boards. It is a pytree that is the same on all devices, best a `flax.struct.PyTreeNode`,
        with two fields at least: `update`, the number of updates done, i32, and `key`, the key of
        the run's seed, which all draws come from. Its floating-point numbers must be finite:
        training ends with an update after which one is not. One with `replace` and a field
        `params`, the network's parameters, can start from another policy's (--config.start_from),
        whose values are in units of reward; one without can leave out no updates (skip_nonfinite).
        """

    def update(
        self, learner: Any, players: Players, tally: Tally
    ) -> tuple[Any, Players, Tally, Metrics]:
        """The learner, the players and the tally after one update, and its metrics."""

    def acting(self, learner: Any) -> Params:
        """The parameters with which the network acts as the learner would, its values being in
        units of reward.
        """
