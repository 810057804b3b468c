"""The game as an environment."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix import game
from hackmatrix.envs.protocol import Environment, Parts, Step
from hackmatrix.game import observation
from hackmatrix.game.state import FIRST_PROGRAM, SIPHON, STAGES
from hackmatrix.game.valid import valid_word

Array = jax.Array
_ACTIONS = np.arange(game.ACTIONS, dtype=np.uint32)


class Seen(struct.PyTreeNode):
    """192 bytes a board: the words of the observation, and the mask with a bit an action."""

    words: Array  # u32[E, 47]
    valid: Array  # u32[E]


class HackMatrix(Environment):
    """Games end by death, victory or an action that is not valid; none is cut off."""

    name = "hackmatrix"
    num_actions = game.ACTIONS
    observation_size = observation.OBSERVATION_SIZE
    truncates = False

    def reset(self, keys: Array) -> game.State:
        return game.reset_batch(keys)

    def step(self, keys: Array, states: game.State, actions: Array) -> tuple[game.State, Step]:
        after, outcome = game.step_batch_and_restart(keys, states, actions)
        return after, Step(
            reward=outcome.reward,
            terminated=outcome.done,
            truncated=jnp.zeros_like(outcome.done),
            final=None,
            each_step={**_reward_parts(outcome), **_kinds_of_action(actions)},
            each_episode=_ends(states, outcome),
            highest={"stats/highest_stage": _stage_reached(states, outcome)},
        )

    def encode(self, states: game.State) -> Seen:
        return Seen(observation.encode(states), valid_word(states))

    def decode(self, seen: Seen) -> tuple[Parts, Array]:
        return observation.decode_parts(seen.words), seen.valid[..., None] >> _ACTIONS & 1 != 0


def _reward_parts(outcome: game.Outcome) -> dict[str, Array]:
    return {f"reward/{name}": outcome.parts[name] for name in game.PARTS}


def _kinds_of_action(actions: Array) -> dict[str, Array]:
    return {
        "actions/move_frac": actions < SIPHON,
        "actions/siphon_frac": actions == SIPHON,
        "actions/program_frac": actions >= FIRST_PROGRAM,
    }


def _ends(before: game.State, outcome: game.Outcome) -> dict[str, Array]:
    """How games ended. The board after them is a new one already."""
    stage = _stage_reached(before, outcome)
    score = before.player.score + 2 * outcome.parts["score_gain"]
    completed = {f"stats/completed_stage_{each}": stage > each for each in range(1, STAGES + 1)}
    return {
        "stats/mean_stage": stage,
        "stats/mean_score": score,
        "stats/win_rate": outcome.won,
        **completed,
    }


def _stage_reached(before: game.State, outcome: game.Outcome) -> Array:
    """9 after a victory."""
    return before.stage + outcome.stage_completed
