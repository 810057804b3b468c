"""Benchmark of the game alone: speed of random play, size of a board, length of its lists.

`play` takes steps as training does; `play_own_loop` calls the functions of `hackmatrix.game`, like
the loop in docs/interfaces.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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
# Returns a step's output, from the states after it, their encoding, and the output before it.
Look = Callable[[game.State, Seen, Array], Array]

STEPS = 64
_CHOICE = max(Purpose) + 1  # a purpose for which the game draws nothing


class Play(struct.PyTreeNode):
    """Boards [E] in play, and the outputs of the last step."""

    states: game.State
    valid: Array  # u32[E]: the valid actions, one bit each
    number: Array  # u32: the steps taken so far
    reward: Array  # f32[E]
    done: Array  # bool[E]
    mask: Array  # bool[E, 28]
    written: Array  # the output of `look`


def at_nothing(states: game.State, seen: Seen, before: Array) -> Array:
    return before


def at_words(states: game.State, seen: Seen, before: Array) -> Array:
    """u32[E, 47]: the compact observation."""
    return seen.words


def at_observation(states: game.State, seen: Seen, before: Array) -> Array:
    """f32[E, 1545]: the observation."""
    return observation.decode(seen.words)


def at_crowd(states: game.State, seen: Seen, before: Array) -> Array:
    """i32[2]: the most enemies and the most transmissions on a board so far."""
    lists = states.enemies.present, states.transmissions.present
    return jnp.maximum(before, jnp.stack([slots.count(present).max() for present in lists]))


_UNSEEN = jax.ShapeDtypeStruct((2,), np.int32)  # stands for the output before the first step


def new_play(boards: int, look: Look) -> Play:
    """Starts new games on `boards` boards."""
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
    """Takes `steps` steps with uniformly random valid actions, and calls `look` after each.

    The reward, the mask and the output of `look` are carried from step to step, so each step has to
    write them out, as it does for an agent that learns from them.
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
    """Returns the environment as training uses it here, with a step as one kernel if supported."""
    return HackMatrix().on(jax.default_backend(), takes_kernels(jax.local_devices()[0]))


def step_keys(number: Array, boards: int) -> Array:
    """Returns the keys u32[E, 2] of a step. The game hashes them, so counters are enough."""
    board = jnp.arange(boards, dtype=jnp.uint32)
    return jnp.stack([board, jnp.full_like(board, number)], axis=-1)


def choose(keys: Array, valid: Array) -> Array:
    """Draws an action i32[E] uniformly from the valid ones (u32[E], one bit each)."""
    random = word(as_key(keys), _CHOICE)
    return slots.nth(valid, uniform_below(random, slots.count(valid))).astype(jnp.int32)


def work(boards: int, look: Look, steps: int = STEPS) -> Work[Play]:
    def run(playing: Play) -> Play:
        return play(playing, look, steps)

    return Work(run, new_play(boards, look), boards * steps)


class OwnLoop(NamedTuple):
    """Boards [E] in play, and the outputs of the last step."""

    states: game.State
    key: Array
    reward: Array  # f32[E]
    done: Array  # bool[E]
    observation: Array  # f32[E, 1545]


@functools.partial(jax.jit, static_argnames="steps", donate_argnums=0)
def play_own_loop(playing: OwnLoop, steps: int) -> OwnLoop:
    """Takes `steps` steps with uniformly random valid actions, and observes after each."""

    def step(playing: OwnLoop, nothing: None) -> tuple[OwnLoop, None]:
        key, act, happen = jax.random.split(playing.key, 3)
        mask = game.valid_actions(playing.states)
        actions = jnp.where(mask, jax.random.uniform(act, mask.shape), -1).argmax(-1)
        keys = jax.random.split(happen, len(mask))
        states, outcome = game.step_batch_and_restart(keys, playing.states, actions)
        return OwnLoop(states, key, outcome.reward, outcome.done, game.observe(states)), None

    return jax.lax.scan(step, playing, None, steps)[0]


def own_loop_work(boards: int, steps: int = STEPS) -> Work[OwnLoop]:
    key = jax.random.key(0)
    states = game.reset_batch(jax.random.split(key, boards))
    reward, done = jnp.zeros(boards), jnp.zeros(boards, bool)
    first = OwnLoop(states, key, reward, done, game.observe(states))
    return Work(lambda playing: play_own_loop(playing, steps), first, boards * steps)


@dataclass(frozen=True)
class Crowd:
    """The most enemies and transmissions on any board after any step of random play."""

    steps: int
    enemies: int
    transmissions: int

    @property
    def capacity_reached(self) -> bool:
        return max(self.enemies, self.transmissions) >= slots.CAPACITY


def crowd(total_steps: int, boards: int) -> Crowd:
    """Plays at least `total_steps` random steps, summed over boards; returns the longest lists."""
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
    """Lowers the batched step."""
    return jax.jit(game.step_batch).lower(*_shapes(boards))


def lower_trainers_step(
    boards: int, mesh: Mesh, platform: str, kernels: bool
) -> jax.stages.Lowered:
    """Lowers a step with its encoding, as training runs it, over a mesh of devices of `platform`
    with `boards` boards each.
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
    """Returns the shapes of the batched step's arguments: keys, states and actions."""
    keys = jax.ShapeDtypeStruct((boards, 2), jnp.uint32)
    states = jax.eval_shape(game.reset_batch, keys)
    return keys, states, jax.ShapeDtypeStruct((boards,), jnp.int32)
