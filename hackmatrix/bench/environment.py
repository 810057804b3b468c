"""Benchmark of the game alone: random play on many boards, their size, their longest lists."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh

from hackmatrix import game
from hackmatrix.bench.timing import Work
from hackmatrix.envs.hackmatrix_env import HackMatrix, Seen
from hackmatrix.game import observation, slots
from hackmatrix.game.randomness import Purpose, as_key, uniform_below, word
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.gpus import takes_kernels

Array = jax.Array
# What a step writes out: of the boards after it, what is seen of them, and what was written before.
Look = Callable[[game.State, Seen, Array], Array]

STEPS = 64
_CHOICE = max(Purpose) + 1  # a purpose that the game has no draws for


class Play(struct.PyTreeNode):
    """Boards [E] under way, and what the last step wrote out."""

    states: game.State
    valid: Array  # u32[E]: the valid actions, a bit each
    number: Array  # u32: the steps taken so far
    reward: Array  # f32[E]
    done: Array  # bool[E]
    mask: Array  # bool[E, 28]
    written: Array  # what the look returned


def at_nothing(states: game.State, seen: Seen, before: Array) -> Array:
    return before


def at_words(states: game.State, seen: Seen, before: Array) -> Array:
    """u32[E, 47]: the compact observation."""
    return seen.words


def at_observation(states: game.State, seen: Seen, before: Array) -> Array:
    """f32[E, 1545]: the observation."""
    return observation.decode(seen.words)


def at_crowd(states: game.State, seen: Seen, before: Array) -> Array:
    """i32[2]: the most enemies and the most transmissions that a board ever had."""
    lists = states.enemies.present, states.transmissions.present
    return jnp.maximum(before, jnp.stack([slots.count(present).max() for present in lists]))


_UNSEEN = jax.ShapeDtypeStruct((2,), np.int32)  # what was written out before the first step


def new_play(boards: int, look: Look) -> Play:
    """New games on so many boards."""
    number = jnp.uint32(0)
    env = _environment()
    states = jax.jit(env.reset)(step_keys(number, boards))
    seen = jax.jit(env.encode)(states)
    written = jax.eval_shape(look, states, seen, _UNSEEN)
    return Play(
        states=states,
        valid=seen.valid,
        number=number,
        reward=jnp.zeros(boards),
        done=jnp.zeros(boards, bool),
        mask=jnp.zeros((boards, game.ACTIONS), bool),
        written=jnp.zeros(written.shape, written.dtype),
    )


@functools.partial(jax.jit, static_argnames=("look", "steps"), donate_argnums=0)
def play(playing: Play, look: Look, steps: int) -> Play:
    """Takes a uniformly random valid action and looks at the boards, as many times as steps.

    The reward, the mask and what was looked at are carried from step to step, so that each step
    must write them out, as it must for an agent that learns from them.
    """
    env = _environment()

    def step(playing: Play, nothing: None) -> tuple[Play, None]:
        valid, number = playing.valid, playing.number + 1
        keys = step_keys(number, valid.shape[0])
        states, told, seen = env.step_and_encode(keys, playing.states, choose(keys, valid))
        mask = seen.valid[:, None] >> np.arange(game.ACTIONS, dtype=np.uint32) & 1 != 0
        written = look(states, seen, playing.written)
        return Play(states, seen.valid, number, told.reward, told.ended, mask, written), None

    return jax.lax.scan(step, playing, None, steps)[0]


def _environment() -> HackMatrix:
    """As it is trained on here: a step is one kernel where that is so in training."""
    return HackMatrix().on(jax.default_backend(), takes_kernels(jax.local_devices()[0]))


def step_keys(number: Array, boards: int) -> Array:
    """u32[E, 2]: the keys of a step. The game hashes them, so counters will do."""
    board = jnp.arange(boards, dtype=jnp.uint32)
    return jnp.stack([board, jnp.full_like(board, number)], axis=-1)


def choose(keys: Array, valid: Array) -> Array:
    """i32[E]: one of the valid actions (u32[E], a bit each) at random."""
    random = word(as_key(keys), _CHOICE)
    return slots.nth(valid, uniform_below(random, slots.count(valid))).astype(jnp.int32)


def work(boards: int, look: Look, steps: int = STEPS) -> Work[Play]:
    def run(playing: Play) -> Play:
        return play(playing, look, steps)

    return Work(run, new_play(boards, look), boards * steps)


@dataclass(frozen=True)
class Crowd:
    """The longest lists that a random player met after its steps."""

    steps: int
    enemies: int
    transmissions: int

    @property
    def capacity_reached(self) -> bool:
        return max(self.enemies, self.transmissions) >= slots.CAPACITY


def crowd(total_steps: int, boards: int) -> Crowd:
    """Plays at least so many steps, on all boards together."""
    calls = -(-total_steps // (boards * STEPS))
    playing = new_play(boards, at_crowd)
    for _ in range(calls):
        playing = play(playing, at_crowd, STEPS)
    enemies, transmissions = np.asarray(playing.written).tolist()
    return Crowd(calls * boards * STEPS, enemies, transmissions)


def bytes_per_board() -> int:
    states = _shapes(1)[1]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(states))


def lower_step(boards: int) -> jax.stages.Lowered:
    """The batched step, ready to compile."""
    return jax.jit(game.step_batch).lower(*_shapes(boards))


def lower_trainers_step(
    boards: int, mesh: Mesh, platform: str, kernels: bool
) -> jax.stages.Lowered:
    """A step and a look at the boards, as a trainer takes it, over a mesh of devices of a platform
    with so many boards each.
    """
    env = HackMatrix().on(platform, kernels)

    def step_and_look(keys: Array, states: game.State, actions: Array) -> Any:
        after, happened, seen = env.step_and_encode(keys, states, actions)
        return after, happened.reward, happened.ended, seen

    step = jax.shard_map(step_and_look, mesh=mesh, in_specs=meshes.SPLIT, out_specs=meshes.SPLIT)
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=meshes.split(mesh)),
        _shapes(boards * mesh.size),
    )
    return jax.jit(step, donate_argnums=1).lower(*shapes)


def _shapes(boards: int) -> tuple[jax.ShapeDtypeStruct, game.State, jax.ShapeDtypeStruct]:
    """The arguments of the batched step, without their values."""
    keys = jax.ShapeDtypeStruct((boards, 2), jnp.uint32)
    states = jax.eval_shape(game.reset_batch, keys)
    return keys, states, jax.ShapeDtypeStruct((boards,), jnp.int32)
