"""The compiled side of a run: its first state, and chunks of whole updates over a mesh."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh, NamedSharding

from hackmatrix.envs import Environment, make
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.mesh import ENVS, SAME, SPLIT
from hackmatrix.ppo import draws, returns, rollout, tally
from hackmatrix.ppo.network import ActorCritic
from hackmatrix.ppo.rollout import Players
from hackmatrix.ppo.settings import Settings
from hackmatrix.ppo.update import Learner, optimiser, update
from hackmatrix.train.config import Config

Array = jax.Array
NEVER = -1


class TrainState(struct.PyTreeNode):
    """Everything that the future of a run depends on."""

    learner: Learner  # the same on all devices
    players: Players  # split over the devices


class Report(struct.PyTreeNode):
    """What a chunk has to say: the means of its metrics, and the first update whose loss or
    gradient was not finite (NEVER if none).
    """

    metrics: dict[str, Array]
    broken_at: Array


_SPECS = TrainState(learner=SAME, players=SPLIT)  # type: ignore[arg-type]


class Program:
    """Built from a configuration for a mesh; nothing is compiled before it is needed."""

    def __init__(self, config: Config, mesh: Mesh, env: Environment | None = None) -> None:
        self.env = env or make(config.env)
        self.mesh = mesh
        self.network = ActorCritic(
            self.env.num_actions, config.hidden_dim, config.num_layers, config.compute_dtype
        )
        self.settings = settings(config)
        self._compiled: jax.stages.Compiled | None = None
        self.batch_size = config.batch_size
        self._seed, self._num_envs = config.seed, config.num_envs
        chunk = functools.partial(_chunk, self.env, self.network, self.settings)
        self._chunk = jax.jit(
            jax.shard_map(chunk, mesh=mesh, in_specs=(_SPECS, SAME), out_specs=(_SPECS, SAME)),
            donate_argnums=0,
        )

    def first_state(self) -> TrainState:
        """The state of a new run."""
        split, same = meshes.split(self.mesh), meshes.same(self.mesh)
        return jax.jit(self._first_state, out_shardings=TrainState(same, split))()  # type: ignore[arg-type]

    def shapes(self) -> TrainState:
        """The state without its values: shapes, types and places."""
        state = jax.eval_shape(self._first_state)
        return TrainState(
            learner=_placed(state.learner, meshes.same(self.mesh)),
            players=_placed(state.players, meshes.split(self.mesh)),
        )

    def lower(self) -> jax.stages.Lowered:
        """The program of `run`, ready to compile, also for devices that are not here."""
        updates = jax.ShapeDtypeStruct((), jnp.int32, sharding=meshes.same(self.mesh))
        return self._chunk.lower(self.shapes(), updates)

    def compile(self) -> None:
        """Does now what the first `run` would wait for. It serves any number of updates."""
        self._compiled = self._compiled or self.lower().compile()

    def run(self, state: TrainState, updates: int) -> tuple[TrainState, Report]:
        """So many updates. The state that is given is used up."""
        number = meshes.placed(np.array(updates, np.int32), meshes.same(self.mesh))
        self.compile()
        assert self._compiled is not None
        state, report = self._compiled(state, number)
        return state, report

    def memory(self) -> Any:
        """What the compiler says of the memory that `run` needs on one device."""
        self.compile()
        assert self._compiled is not None
        return self._compiled.memory_analysis()

    def text(self) -> str:
        """The compiled program, in the compiler's words."""
        self.compile()
        assert self._compiled is not None
        return self._compiled.as_text() or ""

    def parameters(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.shapes().learner.params))

    def _first_state(self) -> TrainState:
        key = draws.seed_key(self._seed)
        players = jax.shard_map(
            functools.partial(rollout.begin, self.env),
            mesh=self.mesh, in_specs=(SAME, SPLIT), out_specs=SPLIT,
        )(key, jnp.arange(self._num_envs, dtype=jnp.uint32))  # fmt: skip
        return TrainState(_new_learner(self.env, self.network, self.settings, key), players)


def _placed(shapes: Any, sharding: NamedSharding) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes
    )


def settings(config: Config) -> Settings:
    return Settings(
        num_steps=config.num_steps,
        group_envs=config.num_envs // config.groups,
        num_minibatches=config.num_minibatches,
        update_epochs=config.update_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_eps=config.clip_eps,
        vf_coef=config.vf_coef,
        ent_coef=config.ent_coef,
        max_grad_norm=config.max_grad_norm,
        lr=config.lr,
        decay_updates=config.num_updates if config.anneal_lr else None,
        scale_returns=config.scale_returns,
    )


def _new_learner(env: Environment, network: ActorCritic, settings: Settings, key: Array) -> Learner:
    params = network.init(
        draws.key_for(key, draws.Purpose.PARAMETERS), jnp.zeros((1, env.observation_size))
    )
    return Learner(
        params=params,
        optimiser=optimiser(settings).init(params),
        return_scale=returns.unknown(),
        update=jnp.int32(0),
        key=key,
    )


def _chunk(
    env: Environment, network: ActorCritic, settings: Settings, state: TrainState, updates: Array
) -> tuple[TrainState, Report]:
    """On each device, of its own part of the players."""
    one_update = functools.partial(update, env, network, settings, ENVS)
    counted = tally.empty(rollout.kind_of_step(env, state.players))
    sums = jax.tree.map(
        lambda metric: jnp.zeros(metric.shape, metric.dtype),
        jax.eval_shape(one_update, state.learner, state.players, counted)[3],
    )

    def one(_: Array, carry: tuple) -> tuple:
        state, counted, sums, broken_at = carry
        learner, players, counted, metrics = one_update(state.learner, state.players, counted)
        sound = jnp.isfinite(metrics["train/total_loss"] + metrics["train/grad_norm"])
        breaks = ~sound & (broken_at == NEVER)
        return (
            TrainState(learner, players),
            counted,
            jax.tree.map(jnp.add, sums, metrics),
            jnp.where(breaks, state.learner.update, broken_at),
        )

    state, counted, sums, broken_at = jax.lax.fori_loop(
        0, updates, one, (state, counted, sums, jnp.int32(NEVER))
    )
    means = jax.tree.map(lambda total: total / updates, sums)
    return state, Report({**means, **tally.read(counted, ENVS)}, broken_at)
