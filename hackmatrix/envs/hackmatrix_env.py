"""The game as a training environment: observations, masks, metrics and their healthy ranges."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix import game
from hackmatrix.envs.metrics import PERCENT, Metric, Range, Section, Trend
from hackmatrix.envs.protocol import Environment, OlderLayout, Parts, Shaping, Step, Turned
from hackmatrix.errors import UserError
from hackmatrix.game import hidden, observation, older, tracing
from hackmatrix.game.cells import CELLS, SIZE
from hackmatrix.game.features import EXIT_SEEN, number_of
from hackmatrix.game.programs import PROGRAMS, Program
from hackmatrix.game.randomness import as_key
from hackmatrix.game.reward import STEP_UNITS, UNITS, distances_to_exit
from hackmatrix.game.state import FIRST_PROGRAM, SIPHON, STAGES
from hackmatrix.game.valid import valid_word

if TYPE_CHECKING:
    from hackmatrix.game.kernels import Kernels

Array = jax.Array
ACTION_NAMES = ("up", "down", "left", "right", "siphon", *PROGRAMS)
_ACTION_BITS = np.arange(game.ACTIONS, dtype=np.uint32)
_COMPLETED = tuple(f"stats/completed_stage_{stage}" for stage in range(1, STAGES + 1))
_A_STEP = STEP_UNITS / UNITS  # the reward for a step towards the exit
# Parts of the reward for what snapshots hold; after UNDO they could be earned again.
_TAKEN_BACK = (
    "score_gain", "kills", "data_siphon", "resource_gain", "resource_holding", "damage_penalty",
    "hp_recovery", "siphon_quality",
)  # fmt: skip
_SHARE = "episodes that complete a stage, %"
_KIND = "actions, %"
_STAGE = "stage at the end of an episode"

OUTCOMES = Section(
    "How it plays",
    (
        Metric("stats/mean_stage", "stage reached", chart=_STAGE, column="stage",
               least=1, most=STAGES + 1),
        Metric("stats/highest_stage", "highest stage", chart=_STAGE, column="best", digits=0,
               words={STAGES + 1: "won"}, is_highest=True),
        Metric(_COMPLETED[0], "completed stage 1", PERCENT, _SHARE, "stage 1 done", digits=0),
        *(Metric(tag, f"completed stage {stage}", PERCENT, _SHARE)
          for stage, tag in enumerate(_COMPLETED[1:], start=2)),
        Metric("stats/win_rate", "won", PERCENT, _SHARE),
        Metric("stats/mean_score", "score", least=0),
        Metric("actions/move_frac", "moves", PERCENT, _KIND),
        Metric("actions/siphon_frac", "siphons", PERCENT, _KIND),
        Metric("actions/program_frac", "programs", PERCENT, _KIND),
    ),
)  # fmt: skip
REWARD = Section(
    "Reward components, per step",
    tuple(Metric(f"reward/{part}", part.replace("_", " ")) for part in game.PARTS),
)
# The entropy of random play is 0.85: some 2.5 actions are valid on a board.
ENTROPY = Range(
    "train/entropy",
    low=0.1,
    if_below="the policy stops exploring; raise --config.ent_coef",
)
STEP_PENALTY = Range(
    "reward/step_penalty",
    -0.0105,
    -0.0095,
    if_below="it is -0.01 for each valid action; the reward is broken",
    if_above="it is -0.01 for each valid action; invalid ones are taken, so the mask is broken",
)
WANDERING = Trend(
    growing="train/mean_episode_length",
    factor=1.25,
    flat="train/mean_episode_return",
    gain=0.1,
    meaning="the agent may be moving back and forth",
)


class Seen(struct.PyTreeNode):
    """Compact observations, 192 bytes a board; the mask has one bit per action."""

    words: Array  # u32[E, 47]
    valid: Array  # u32[E]


class HackMatrix(Environment):
    """HackMatrix. Games end by death, victory or an invalid action, and are never truncated."""

    name = "hackmatrix"
    action_names = ACTION_NAMES
    observation = observation.PARTS
    truncates = False
    has_potential = True
    has_possessions = True
    landmark = EXIT_SEEN
    action_kinds = MappingProxyType({"moves": ACTION_NAMES[:SIPHON], "programs": tuple(PROGRAMS)})
    sections = (OUTCOMES, REWARD)
    goal = "stats/mean_stage"
    health = (ENTROPY, STEP_PENALTY, WANDERING)
    older_layouts: tuple[OlderLayout, ...] = (
        OlderLayout(older.shallow_layout, older.deepened),
        OlderLayout(older.older_layout, older.upgraded),
    )

    _platform: str | None = None  # None: JAX's default
    _kernels: Kernels | None = None
    _turned: Turned | None = None

    def on(self, platform: str, kernels: bool = False) -> Self:
        cls = type(self)
        if cls.step is HackMatrix.step and cls.reset is not HackMatrix.reset:
            raise UserError(
                f"{self.name} overrides `reset` but not `step`, which begins later games without "
                "it: define a `step` that restarts ended games with that `reset`"
            )
        env = copy.copy(self)
        if cls.reset is not HackMatrix.reset:
            env.older_layouts = ()  # its states may be of another kind
        env._platform = platform
        env._kernels = _kernels_for(platform) if kernels else None
        env.packs_small_arrays = platform == "gpu"
        env.puts_boards_last = platform == "tpu"
        env.types_are_checked = not (kernels and platform == "cpu")  # which are interpreted
        return env

    def reset(self, keys: Array) -> game.State:
        with tracing.program_for(self._platform):
            return game.reset_batch(keys)

    def step(self, keys: Array, states: game.State, actions: Array) -> tuple[game.State, Step]:
        if self._kernels:
            return self._by_kernel(self._kernels, keys, states, actions)[:2]
        with tracing.program_for(self._platform):
            after, outcome = game.step_batch_and_restart(keys, states, actions)
            return after, _step(states, actions, after, outcome)

    def encode(self, states: game.State) -> Seen:
        if self._kernels:
            return Seen(*self._kernels.look(states))
        with tracing.program_for(self._platform):
            return Seen(observation.encode(states), valid_word(states))

    def step_and_encode(
        self, keys: Array, states: game.State, actions: Array
    ) -> tuple[game.State, Step, Seen]:
        cls = type(self)  # a subclass may have other rewards or observations
        is_as_here = (cls.step, cls.encode) == (HackMatrix.step, HackMatrix.encode)
        if self._kernels is None or not is_as_here:
            return super().step_and_encode(keys, states, actions)
        return self._by_kernel(self._kernels, keys, states, actions)

    def _by_kernel(
        self, kernels: Kernels, keys: Array, states: game.State, actions: Array
    ) -> tuple[game.State, Step, Seen]:
        after, outcome, seen = kernels.step_batch_and_restart(keys, states, actions)
        with tracing.program_for(self._platform):
            return after, _step(states, actions, after, outcome), Seen(*seen)

    def redrawn(self, keys: Array, states: game.State) -> game.State:
        with tracing.program_for(self._platform):
            return hidden.redrawn(as_key(keys), states)

    def decode(self, seen: Seen) -> tuple[Parts, Array]:
        mask = seen.valid[..., None] >> _ACTION_BITS & 1 != 0
        with tracing.program_for(self._platform):
            cells, others = jnp.split(seen.words, [CELLS], axis=-1)
            parts = observation.decode_player(others)
            if self._turned and self.landmark is not None:
                grid = cells.reshape(*mask.shape[:-1], SIZE, SIZE, 1)
                marks = number_of(grid[..., 0], self.landmark)
                parts, _ = self._turned(marks, {**parts, "cells": grid})
                cells = parts["cells"].reshape(cells.shape)
            return {**parts, "cells": observation.decode_cells(cells)}, mask

    def turned_by(self, turned: Turned) -> Self:
        if type(self).decode is not HackMatrix.decode:
            return self
        env = copy.copy(self)
        env._turned = turned
        return env


def is_drawable(env: Environment) -> bool:
    """Whether the environment's games can be recorded and drawn (hackmatrix.replay). Those of a
    subclass cannot, as its rules and rewards may differ.
    """
    return type(env) is HackMatrix


def _kernels_for(platform: str) -> Kernels:
    from hackmatrix.game.kernels import Kernels  # only here: Pallas takes a while to load

    return Kernels(platform)


def _step(before: game.State, actions: Array, after: game.State, outcome: game.Outcome) -> Step:
    return Step(
        reward=outcome.reward,
        terminated=outcome.done,
        truncated=jnp.zeros_like(outcome.done),
        final=None,
        each_step={**_reward_parts(outcome), **_kinds_of_action(actions)},
        each_episode=_ends(before, outcome),
        highest={"stats/highest_stage": _stage_reached(before, outcome)},
        shaping=_shaping(before, after, outcome),
    )


def _shaping(before: game.State, after: game.State, outcome: game.Outcome) -> Shaping:
    """Returns the shaping. The potential falls with the distance to the exit; possessions are
    programs. If the player has UNDO, `rewarded` includes the rewards for what UNDO takes back, as
    they could be earned again and again.
    """
    old, new = (-_A_STEP * way.astype(jnp.float32) for way in distances_to_exit(before, after))
    has_undo = (before.owned | after.owned) >> np.uint32(Program.UNDO.number) & 1 != 0
    taken_back = jnp.where(has_undo, sum(outcome.parts[name] for name in _TAKEN_BACK), 0)
    rewarded = outcome.parts["distance_shaping"] + taken_back
    had, has = (
        jax.lax.population_count(each.owned).astype(jnp.float32) for each in (before, after)
    )
    new, gained = (jnp.where(outcome.done, 0, each) for each in (new, has - had))
    return Shaping(old, new, rewarded, gained)


def _reward_parts(outcome: game.Outcome) -> dict[str, Array]:
    return {f"reward/{name}": outcome.parts[name] for name in game.PARTS}


def _kinds_of_action(actions: Array) -> dict[str, Array]:
    return {
        "actions/move_frac": actions < SIPHON,
        "actions/siphon_frac": actions == SIPHON,
        "actions/program_frac": actions >= FIRST_PROGRAM,
    }


def _ends(before: game.State, outcome: game.Outcome) -> dict[str, Array]:
    """Returns the metrics of ended games, from the boards before: those after are new games."""
    stage = _stage_reached(before, outcome)
    score = before.player.score + 2 * outcome.parts["score_gain"]
    completed = {tag: stage > each for each, tag in enumerate(_COMPLETED, start=1)}
    return {
        "stats/mean_stage": stage,
        "stats/mean_score": score,
        "stats/win_rate": outcome.won,
        **completed,
    }


def _stage_reached(before: game.State, outcome: game.Outcome) -> Array:
    """The stage after the step; 9 after a victory."""
    return before.stage + outcome.stage_completed
