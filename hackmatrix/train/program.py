"""The compiled side of a run: its first state, and chunks of whole updates over a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from hackmatrix import networks, plugins
from hackmatrix.compile_cache.programs import CachedJit, compiled, name_of, prefetch, traced
from hackmatrix.envs import Environment, make, static_checks
from hackmatrix.envs.metrics import Range, Trend
from hackmatrix.errors import UserError
from hackmatrix.game.tracing import program_for
from hackmatrix.networks.actor_critic import Params
from hackmatrix.networks.outside import check_is_trainable
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.agreement import every_process
from hackmatrix.parallel.gpus import takes_kernels
from hackmatrix.parallel.mesh import ENVS, REPLICATED, SPLIT
from hackmatrix.rl import chunk as chunks
from hackmatrix.rl import draws, rollout
from hackmatrix.rl.algorithm import Algorithm
from hackmatrix.rl.rollout import Players, UpdateKey
from hackmatrix.rl.train_state import Report, TrainState
from hackmatrix.train import algorithms, inputs, warm_start
from hackmatrix.train.config import Config
from hackmatrix.train.config.rules import ALGORITHMS

Array = jax.Array

# Settings that identify the run; no algorithm reads them. (The seed is in the state.)
_OF_THE_RUN = "run_name", "run_suffix", "resume", "rewind", "seed", "num_seeds"
# Settings that any program reads besides those of its algorithm, environment and network.
_OF_ALL_PROGRAMS = {"num_envs", "skip_nonfinite"}
_SPECS = TrainState(learner=REPLICATED, players=SPLIT)  # type: ignore[arg-type]


def check_precision() -> None:
    """Raises UserError if JAX computes in 64 bits."""
    if jnp.result_type(float) != jnp.float32:
        raise UserError(
            "JAX is set to 64 bits (jax_enable_x64), and training needs 32: turn that off, also in "
            "modules and configuration files of your own"
        )


class Program:
    """The compiled functions of a run on a mesh; nothing is compiled before it is needed."""

    def __init__(self, config: Config, mesh: Mesh) -> None:
        self.config, self.mesh = config, mesh
        env = _environment(config.env)
        device = mesh.devices.flat[0]
        env = env.on(device.platform, _has_kernels(device, config.kernels))
        self.env = env.limited(config.episode_limit)
        self.network = networks.make(config, self.env)
        kind = algorithms.find(config.algorithm)
        learners_env = self.network.turned(self.env)
        given = learners_env, self.network, config, ENVS
        self.algorithm: Algorithm = algorithms.built(config.algorithm, kind, *given)
        algorithms.check(config.algorithm, self.algorithm, self.network, config)
        self._inputs = inputs.names_of(kind)
        self._made_of = kind, self.env, self.network, self._settings()
        self._parts = chunks.run, *self._made_of
        self._acting = jax.jit(self.algorithm.acting)
        self._lowered: jax.stages.Lowered | None = None
        self._compiled: jax.stages.Compiled | None = None

        def chunk(state: TrainState, updates: Array, numbers: Array) -> tuple[TrainState, Report]:
            own = inputs.with_inputs(config, self._inputs, numbers)
            algorithm = kind(learners_env, self.network, own, ENVS)
            with program_for(device.platform):
                return chunks.run(self.env, algorithm, config.skip_nonfinite, state, updates)

        self._chunk = jax.jit(
            jax.shard_map(
                chunk,
                mesh=mesh,
                in_specs=(_SPECS, REPLICATED, REPLICATED),
                out_specs=(_SPECS, REPLICATED),
                check_vma=self.types_are_checked,
            ),
            donate_argnums=0,
        )

    @property
    def types_are_checked(self) -> bool:
        """Whether shard_map may check the types of the algorithm and the environment."""
        return self.env.types_are_checked and getattr(self.algorithm, "types_are_checked", True)

    @property
    def health(self) -> tuple[Range | Trend, ...]:
        """The healthy ranges and trends of the run's metrics."""
        return (*self.env.health, *self.algorithm.health, chunks.HEALTH)

    def first_state(self) -> TrainState:
        """Returns the first state of a new run."""
        learner = self._first_learner(self._seed)
        if (params := self.params_to_start_from) is not None:
            params = meshes.placed(params, meshes.replicated(self.mesh))
            learner = learner.replace(params={**learner.params, **params})
        return TrainState(learner, self._first_players(self._seed))

    def new_players(self, learner: Any) -> Players:
        """Returns players with new games, for a learner in the middle of a run."""
        begun = self._beginning(rollout.later_players)
        return begun(UpdateKey(learner.key, learner.update))

    @functools.cached_property
    def shapes(self) -> TrainState:
        """The train state as a tree of jax.ShapeDtypeStruct with shardings."""
        players = self._first_players.shapes(self._seed)
        return TrainState(self.learner_shapes, _placed(players, meshes.split(self.mesh)))

    @functools.cached_property
    def learner_shapes(self) -> Any:
        """The learner's part of `shapes`, found without tracing a reset of the environment."""
        learner = self._first_learner.shapes(self._seed)
        return _placed(learner, meshes.replicated(self.mesh))

    def lower(self) -> jax.stages.Lowered:
        """Lowers the program of `run`, also for devices that this machine does not have."""
        if self._lowered is None:
            check_precision()
            if plugins.is_address(self.config.network) and self.config.algorithm in ALGORITHMS:
                check_is_trainable(self.network, self.types_are_checked)
            replicated = meshes.replicated(self.mesh)
            updates = jax.ShapeDtypeStruct((), jnp.int32, sharding=replicated)
            numbers = jax.ShapeDtypeStruct((len(self._inputs),), jnp.float32, sharding=replicated)
            self._lowered = traced(lambda: self._chunk.lower(self.shapes, updates, numbers))
        return self._lowered

    def prefetch(self) -> None:
        """Starts to load the program of `run` in the background, if it is cached."""
        prefetch(self._parts, self._devices)

    def compile(self) -> jax.stages.Compiled:
        """Compiles the program of `run`, or loads it. It serves any number of updates."""
        if self._compiled is None:
            check_precision()  # a module of the run's own may have changed it
            self._compiled = compiled(self.lower, self._parts, self._devices, every_process)
        return self._compiled

    @property
    def name(self) -> str:
        """A name that identifies the program on all processes with the same sources."""
        return name_of(self.lower, self._parts)

    def run(
        self, state: TrainState, updates: int, extra_updates: float = 0.0
    ) -> tuple[TrainState, Report]:
        """Runs this many updates. `state` is donated. `extra_updates`: see runs/schedule.py."""
        numbers = inputs.values(self.config, self._inputs, extra_updates=extra_updates)
        given = meshes.placed((np.int32(updates), numbers), meshes.replicated(self.mesh))
        return self.compile()(state, *given)

    def acting(self, learner: Any) -> Params:
        """Returns the parameters the agent acts with, on all devices. All processes call this."""
        return self._acting(learner)

    def num_parameters(self) -> int:
        """Returns the number of parameters of the agent."""
        acting = jax.eval_shape(self.algorithm.acting, self.learner_shapes)
        return sum(leaf.size for leaf in jax.tree.leaves(acting))

    def _settings(self) -> dict[str, Any]:
        """Returns the settings compiled into the program as constants; for a custom algorithm, all
        that it might read.
        """
        config = self.config
        names = algorithms.settings_of(config.algorithm, type(self.algorithm))
        if names is None:
            names = config.settings().keys() - {*_OF_THE_RUN}
        names |= _OF_ALL_PROGRAMS
        return {name: getattr(config, name) for name in sorted(names - {*self._inputs})}

    @property
    def _devices(self) -> list[jax.Device]:
        return list(self.mesh.devices.flat)

    @property
    def _seed(self) -> np.uint32:
        return np.uint32(self.config.seed)

    @functools.cached_property
    def _first_learner(self) -> CachedJit:
        """A cached program that makes the learner of a new run from a seed."""

        def begin(seed: Array) -> Any:
            return self.algorithm.init(draws.seed_key(seed))

        return CachedJit(
            jax.jit(begin, out_shardings=meshes.replicated(self.mesh)),
            of=("init", *self._made_of, inputs.values(self.config, self._inputs)),
            devices=self._devices,
            every_process=every_process,
        )

    @functools.cached_property
    def _first_players(self) -> CachedJit:
        """A cached program that begins the games of a new run from a seed."""
        return self._beginning(_players_of_seed)

    def _beginning(self, begin: Callable[..., Players]) -> CachedJit:
        """Returns a cached program that resets all environments on all devices from one key."""
        function = functools.partial(begin, self.env)
        each = jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(REPLICATED, SPLIT),
            out_specs=SPLIT,
            check_vma=self.types_are_checked,
        )

        def of_all(key: Any) -> Players:
            return each(key, jnp.arange(self.config.num_envs, dtype=jnp.uint32))

        return CachedJit(
            jax.jit(of_all, out_shardings=meshes.split(self.mesh)),
            of=(function, self.config.num_envs, self.types_are_checked),
            devices=self._devices,
            every_process=every_process,
        )

    @functools.cached_property
    def params_to_start_from(self) -> Params | None:
        """The parameters of the agent `start_from` names, if any. Only a new run needs them."""
        if not (name := self.config.start_from):
            return None
        first = jax.eval_shape(self.algorithm.init, draws.seed_key(0))
        if not isinstance(getattr(first, "params", None), Mapping):
            raise UserError(
                f"start_from is not supported by algorithm={self.config.algorithm}, whose "
                "learner has no `params` like those of a network"
            )
        key = draws.key_for(draws.seed_key(self.config.seed), draws.Purpose.PARAMETERS)
        return warm_start.params_of(name, self.env, self.network, key)


def _has_kernels(device: Any, told: bool | None) -> bool:
    """Whether a step is one kernel on this device: as the setting says, or by default."""
    if told and device.platform == "gpu" and not takes_kernels(device):
        raise UserError(
            f"kernels=True: {device.device_kind} does not support them (NVIDIA GPUs do from Hopper "
            "on); use --config.kernels=False, which runs a step as some hundred small kernels"
        )
    return takes_kernels(device) if told is None else told


def _environment(name: str) -> Environment:
    """Makes the environment of that name; a custom one is checked."""
    env = make(name)
    if plugins.is_address(name):
        static_checks.check(env)
    return env


def _players_of_seed(env: Environment, seed: Array, numbers: Array) -> Players:
    return rollout.new_players(env, draws.seed_key(seed), numbers)


def _placed(shapes: Any, sharding: NamedSharding) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes
    )
