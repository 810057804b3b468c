"""A small board to walk on, for networks over cells: a player and a grid of cells."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs.metrics import PERCENT, Metric, Section
from hackmatrix.envs.protocol import Environment, Parts, Step

Array = jax.Array
SIZE, PATIENCE = 4, 10
_STEPS = ((1, 0), (-1, 0), (0, -1), (0, 1))


class Boards(struct.PyTreeNode):
    player: Array  # i32[E, 2]: row and column
    goal: Array  # i32[E, 2]
    time: Array  # i32[E]


class GridWalk(Environment):
    """The player has to reach a goal that lies elsewhere on the board, in PATIENCE steps."""

    name = "tests.networks.grid:GridWalk"
    action_names = ("up", "down", "left", "right")
    observation: Mapping[str, tuple[int, ...]] = MappingProxyType(
        {"player": (3,), "cells": (SIZE, SIZE, 2)}
    )
    truncates = False
    landmark = 0
    sections = (Section("How it plays", (Metric("grid/reached", "reached", PERCENT),)),)

    def reset(self, keys: Array) -> Boards:
        places = jax.vmap(
            lambda key: jax.random.randint(jax.random.wrap_key_data(key), (4,), 0, SIZE)
        )
        drawn = places(keys)
        player, goal = drawn[:, :2], drawn[:, 2:]
        goal = jnp.where((goal == player).all(1, keepdims=True), (goal + 1) % SIZE, goal)
        return Boards(player, goal, jnp.zeros_like(drawn[:, 0]))

    def step(self, keys: Array, states: Boards, actions: Array) -> tuple[Boards, Step]:
        player = jnp.clip(states.player + jnp.array(_STEPS)[actions], 0, SIZE - 1)
        reached = (player == states.goal).all(1)
        ended = reached | (states.time + 1 == PATIENCE)
        after = Boards(player, states.goal, states.time + 1)
        fresh = self.reset(keys)
        boards = jax.tree.map(
            lambda new, old: jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old),
            fresh,
            after,
        )
        return boards, Step(
            reward=reached.astype(jnp.float32),
            terminated=ended,
            truncated=jnp.zeros_like(ended),
            final=None,
            each_step={},
            each_episode={"grid/reached": reached},
            highest={},
        )

    def encode(self, states: Boards) -> Boards:
        return states

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        lines = jnp.arange(SIZE)
        goal = (lines[:, None] == seen.goal[:, 0, None, None]) & (
            lines == seen.goal[:, 1, None, None]
        )
        cells = jnp.stack([goal, ~goal], axis=-1).astype(jnp.float32)
        time = seen.time[:, None] / PATIENCE
        player = jnp.concatenate([seen.player / (SIZE - 1), time], axis=-1)
        mask = jnp.ones((len(seen.time), 4), bool)
        return {"player": player.astype(jnp.float32), "cells": cells}, mask
