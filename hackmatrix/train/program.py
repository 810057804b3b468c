"""The compiled side of a run: its first state, and chunks of whole updates over a mesh."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from hackmatrix import networks
from hackmatrix.envs import Environment, make
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.networks.actor_critic import Params
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.mesh import ENVS, REPLICATED, SPLIT
from hackmatrix.rl import draws, rollout, tally
from hackmatrix.rl.algorithm import Algorithm
from hackmatrix.rl.train_state import NEVER, Report, TrainState
from hackmatrix.train import algorithms
from hackmatrix.train.config import Config

Array = jax.Array

_SPECS = TrainState(learner=REPLICATED, players=SPLIT)  # type: ignore[arg-type]


class Program:
    """Built from a configuration for a mesh; nothing is compiled before it is needed."""

    def __init__(self, config: Config, mesh: Mesh, env: Environment | None = None) -> None:
        self.config, self.mesh = config, mesh
        self.env = env or make(config.env)
        self.network = networks.make(config, self.env)
        self.algorithm: Algorithm = algorithms.find(config.algorithm)(
            self.env, self.network, config, ENVS
        )
        self._lowered: jax.stages.Lowered | None = None
        self._compiled: jax.stages.Compiled | None = None
        chunk = functools.partial(_chunk, self.env, self.algorithm)
        specs = _SPECS, REPLICATED
        self._chunk = jax.jit(
            jax.shard_map(
                chunk,
                mesh=mesh,
                in_specs=specs,
                out_specs=specs,
                check_vma=self.types_are_checked,
            ),
            donate_argnums=0,
        )

    @property
    def types_are_checked(self) -> bool:
        """Whether shard_map may check the types of what the algorithm does."""
        return getattr(self.algorithm, "types_are_checked", True)

    def first_state(self) -> TrainState:
        """The state of a new run."""
        split, replicated = meshes.split(self.mesh), meshes.replicated(self.mesh)
        places = TrainState(learner=replicated, players=split)  # type: ignore[arg-type]
        state: TrainState = jax.jit(self._first_state, out_shardings=places)()
        if (start := self.params_to_start_from()) is None:
            return state
        params = meshes.placed(start, replicated)
        return state.replace(learner=state.learner.replace(params=params))

    def shapes(self) -> TrainState:
        """The state without its values: shapes, types and places."""
        state = jax.eval_shape(self._first_state)
        return TrainState(
            learner=_placed(state.learner, meshes.replicated(self.mesh)),
            players=_placed(state.players, meshes.split(self.mesh)),
        )

    def lower(self) -> jax.stages.Lowered:
        """The program of `run`, ready to compile, also for devices that are not here."""
        if self._lowered is None:
            replicated = meshes.replicated(self.mesh)
            updates = jax.ShapeDtypeStruct((), jnp.int32, sharding=replicated)
            self._lowered = self._chunk.lower(self.shapes(), updates)
        return self._lowered

    def compile(self) -> jax.stages.Compiled:
        """Does now what the first `run` would wait for. It serves any number of updates."""
        self._compiled = self._compiled or self.lower().compile()
        return self._compiled

    def run(self, state: TrainState, updates: int) -> tuple[TrainState, Report]:
        """So many updates. The state that is given is used up."""
        number = meshes.placed(np.array(updates, np.int32), meshes.replicated(self.mesh))
        state, report = self.compile()(state, number)
        return state, report

    def acting(self, learner: Any) -> Params:
        """The parameters that the agent acts with, on all devices. All processes call this."""
        return jax.jit(self.algorithm.acting)(learner)

    def memory(self) -> Any:
        """What the compiler says of the memory that `run` needs on one device."""
        return self.compile().memory_analysis()

    def text(self) -> str:
        """The compiled program, in the compiler's words."""
        return self.compile().as_text() or ""

    def parameters(self) -> int:
        """How many parameters the agent has."""
        acting = jax.eval_shape(self.algorithm.acting, self.shapes().learner)
        return sum(leaf.size for leaf in jax.tree.leaves(acting))

    def _first_state(self) -> TrainState:
        key = draws.seed_key(self.config.seed)
        players = jax.shard_map(
            functools.partial(rollout.new_players, self.env),
            mesh=self.mesh,
            in_specs=(REPLICATED, SPLIT),
            out_specs=SPLIT,
        )(key, jnp.arange(self.config.num_envs, dtype=jnp.uint32))
        return TrainState(self.algorithm.init(key), players)

    def params_to_start_from(self) -> Params | None:
        """Those of another agent, if the configuration names one. Only a new run needs them."""
        if not (name := self.config.start_from):
            return None
        params, about = files.read(name)
        if not hasattr(jax.eval_shape(self.algorithm.init, draws.seed_key(0)), "params"):
            raise UserError(
                f"start_from is not for algorithm={self.config.algorithm}, whose learner "
                "has no `params`"
            )
        own = self.network.spec
        if about.env != self.env.name or dataclasses.asdict(about.spec) != dataclasses.asdict(own):
            raise UserError(
                f"start_from={name} plays {about.env} with {about.spec}; this run is to play "
                f"{self.env.name} with {own}"
            )
        return params


def _placed(shapes: Any, sharding: NamedSharding) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes
    )


def _chunk(
    env: Environment, algorithm: Algorithm, state: TrainState, updates: Array
) -> tuple[TrainState, Report]:
    """So many updates on each device, of its own part of the players."""
    counted = tally.empty(rollout.kind_of_step(env, state.players))
    of_one = jax.eval_shape(algorithm.update, state.learner, state.players, counted)[3]
    sums = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), of_one)

    def one(_: Array, carry: tuple) -> tuple:
        state, counted, sums, broken_at = carry
        learner, players, counted, told = algorithm.update(state.learner, state.players, counted)
        sound = jnp.isfinite(sum(told[tag] for tag in algorithm.vital))
        breaks = ~sound & (broken_at == NEVER)
        return (
            TrainState(learner, players),
            counted,
            jax.tree.map(jnp.add, sums, told),
            jnp.where(breaks, state.learner.update, broken_at),
        )

    state, counted, sums, broken_at = jax.lax.fori_loop(
        0, updates, one, (state, counted, sums, jnp.int32(NEVER))
    )
    means = jax.tree.map(lambda total: total / updates, sums)
    return state, Report({**means, **tally.read(counted, ENVS)}, broken_at)
