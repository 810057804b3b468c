"""Metrics of play, summed on the devices and read once a chunk.

There is a sum for each board, so a step costs a few additions and no communication.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs.metrics import OF_PLAY, PERCENT, Metric, Section
from hackmatrix.envs.protocol import Step

Array = jax.Array
Metrics = dict[str, Array]

RETURN, LENGTH, CUT_OFF, _REWARD, _EPISODES = OF_PLAY
_LEAST = -jnp.inf
SECTION = Section(
    "How it plays",
    (
        Metric(RETURN, "return", column="return", is_signed=True),
        Metric(LENGTH, "actions", column="length", digits=1, least=0),
        Metric(CUT_OFF, "cut off", PERCENT),
        Metric(_REWARD, "mean reward per step"),
        Metric(_EPISODES, "episodes finished"),
    ),
)


class Tally(struct.PyTreeNode):
    """Counts, and sums and maxima of metrics, for each board."""

    steps: Array  # f32[E]: the number of steps
    episodes: Array  # f32[E]: the number of episodes that ended
    each_step: Array  # f32[E, names]: sums over steps
    each_episode: Array  # f32[E, names]: sums over the ends of episodes
    highest: Array  # f32[E, names]: maxima over the ends of episodes
    names: tuple[tuple[str, ...], ...] = struct.field(pytree_node=False)  # of these three's columns


def empty(step: Step, cuts_off: bool = False) -> Tally:
    """Returns an empty tally for steps like this one, of which only shapes and names matter. With
    `cuts_off`, episodes that are cut off are counted.
    """
    of_episodes = _each_episode(step, step.reward, step.reward)
    if not cuts_off:
        del of_episodes[CUT_OFF]
    each = (_each_step(step), of_episodes, step.highest)
    nothing = jnp.zeros_like(step.reward)
    columns = [jnp.broadcast_to(nothing[:, None], (nothing.size, len(named))) for named in each]
    return Tally(
        steps=nothing,
        episodes=nothing,
        each_step=columns[0],
        each_episode=columns[1],
        highest=columns[2] + _LEAST,
        names=tuple(tuple(sorted(named)) for named in each),
    )


def add(tally: Tally, step: Step, episode_return: Array, episode_length: Array) -> Tally:
    """Adds a step. The return and the length [E] are those of the episodes up to this step."""
    ended = step.ended
    known = _each_episode(step, episode_return, episode_length)
    each_episode = _columns({name: known[name] for name in tally.names[1]}, ended.size)
    highest = jnp.where(ended[:, None], _columns(step.highest, ended.size), _LEAST)
    return tally.replace(
        steps=tally.steps + 1,
        episodes=tally.episodes + ended,
        each_step=tally.each_step + _columns(_each_step(step), ended.size),
        each_episode=tally.each_episode + jnp.where(ended[:, None], each_episode, 0),
        highest=jnp.maximum(tally.highest, highest),
    )


def merge(one: Tally, other: Tally) -> Tally:
    """Combines two tallies. Each update has a tally of its own, merged into the chunk's: a float32
    sum loses small numbers that are added one by one after a few million, and a chunk may have more
    steps.
    """
    both = jax.tree.map(jnp.add, one, other)
    return both.replace(highest=jnp.maximum(one.highest, other.highest))


def read(tally: Tally, axis: str) -> Metrics:
    """Returns the metrics over all devices; those of episodes are NaN if no episode ended."""
    sums = (
        tally.each_step.sum(0),
        tally.each_episode.sum(0),
        tally.steps.sum(),
        tally.episodes.sum(),
    )
    each_step, each_episode, steps, episodes = jax.lax.psum(sums, axis)
    highest = jax.lax.pmax(tally.highest.max(0), axis)
    of_steps, of_episodes, of_highest = tally.names
    return {
        **dict(zip(of_steps, each_step / steps, strict=True)),
        **dict(zip(of_episodes, each_episode / episodes, strict=True)),
        **dict(zip(of_highest, jnp.where(episodes > 0, highest, jnp.nan), strict=True)),
        _EPISODES: episodes,
    }


def _each_step(step: Step) -> Mapping[str, Array]:
    return {**step.each_step, _REWARD: step.reward}


def _each_episode(step: Step, episode_return: Array, length: Array) -> Metrics:
    return {**step.each_episode, RETURN: episode_return, LENGTH: length, CUT_OFF: step.truncated}


def _columns(named: Mapping[str, Array], boards: int) -> Array:
    """Stacks the metrics as f32[E, names], sorted by name."""
    columns = [named[name].astype(jnp.float32) for name in sorted(named)]
    return jnp.stack(columns, axis=-1) if columns else jnp.zeros((boards, 0))
