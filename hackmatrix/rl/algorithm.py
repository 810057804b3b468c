"""The protocol of learning algorithms, which the training loop calls."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import jax

from hackmatrix.envs.metrics import Range, Section, Trend
from hackmatrix.networks.actor_critic import Params
from hackmatrix.rl.rollout import Players
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array


class Algorithm(Protocol):
    """A learning algorithm. It is built as ALGORITHM(env, network, config, axis), from the
    configuration of the run and the name of the mesh axis over which environments are sharded.

    `update` runs inside `jax.shard_map` with this device's players. It plays and learns, and
    reduces over the axis whatever must be the same on all devices. Gradients come from
    `hackmatrix.rl.gradients.mean_gradient`, as JAX by itself would sum them over the devices. A
    class whose correct update fails `shard_map`'s type check sets `types_are_checked = False`.

    Settings are constants of the compiled program, except those that the class lists as `inputs`.
    For `update` the algorithm is built with a configuration in which these are f32 scalars: it may
    compute with them but not branch on them, and one program serves all their values.
    """

    # The metrics of an update, and the tags of those that must be finite.
    sections: ClassVar[tuple[Section, ...]]
    vital: ClassVar[tuple[str, ...]]

    @property
    def health(self) -> tuple[Range | Trend, ...]:
        """The healthy ranges and trends of metrics."""

    def init(self, key: Array) -> Any:
        """Returns the initial learner: all state of a run besides the players.

        It is a pytree that is the same on all devices, preferably a `flax.struct.PyTreeNode`, with
        at least the fields `update`, the number of updates done (i32), and `key`, the key of the
        run's seed, from which all draws come. Its floating-point leaves must stay finite, or
        training stops. `skip_nonfinite` needs its method `replace`. `start_from` also needs a field
        `params`, the network's parameters, which it replaces by those of another policy, whose
        values are in units of reward. Other entries of `params` and other fields, such as a copy of
        the parameters, stay as `init` made them.
        """

    def update(
        self, learner: Any, players: Players, tally: Tally
    ) -> tuple[Any, Players, Tally, Metrics]:
        """Does one update; returns the new learner, players and tally, and the update's metrics."""

    def acting(self, learner: Any) -> Params:
        """Returns the network's parameters for acting, with values in units of reward."""
