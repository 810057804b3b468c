"""What an invalid action does.

By the rules it ends the game without a reward. A learner that knows no mask would then be rewarded
for giving up at once, as playing badly costs more; so clients can choose another effect. The choice
does not change what valid actions do.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix import game
from hackmatrix.game import play, reward, slots
from hackmatrix.game.randomness import Key, uniform_below, word
from hackmatrix.game.valid import is_valid, valid_word

Array = jax.Array

CHOICES = (
    "end",  # the game ends, as the rules say
    "cost",  # it costs INVALID_COST and changes nothing
    "redraw",  # a valid action is drawn in its place, uniformly
)
# A step of random valid play costs 0.08, and doing nothing must not be cheaper.
INVALID_COST = 0.25
COST_PART = "invalid_action"  # the name of this part of the reward
# The purposes of the game's own draws are smaller numbers (randomness.Purpose).
PURPOSE = 1 << 16


def checked(choice: str) -> str:
    if choice not in CHOICES:
        raise ValueError(f"invalid={choice!r} must be one of {', '.join(CHOICES)}")
    return choice


def parts(choice: str) -> tuple[str, ...]:
    """Returns the names of the parts that the reward is the sum of."""
    return (*game.PARTS, COST_PART) if choice == "cost" else game.PARTS


def take_action(
    choice: str, before: game.State, key: Key, actions: Array
) -> tuple[game.State, game.Outcome, Array]:
    """Like play.take_action, except for what an invalid action does; rewards are floats.
    `outcome.invalid` is about the action that was given. If no action is valid, the game ends
    whatever the choice.
    """
    taken = _redrawn(before, key, actions) if choice == "redraw" else actions
    after, outcome, in_turn = play.take_action(before, key, taken)
    outcome = reward.in_floats(outcome)
    if choice == "redraw":
        outcome = outcome.replace(invalid=outcome.invalid | (taken != actions))
    if choice == "cost":
        outcome = _charged(outcome, can_go_on=valid_word(before) != 0)
    return after, outcome, in_turn


def _redrawn(boards: game.State, key: Key, actions: Array) -> Array:
    """Returns the actions, with valid ones drawn in place of invalid ones."""
    valid = valid_word(boards)
    choice = uniform_below(word(key, PURPOSE), slots.count(valid))
    drawn = slots.nth(valid, choice).astype(jnp.int32)
    return jnp.where(is_valid(boards, actions), actions, drawn)


def _charged(outcome: game.Outcome, can_go_on: Array) -> game.Outcome:
    forgiven = outcome.invalid & can_go_on
    cost = jnp.where(forgiven, jnp.float32(-INVALID_COST), 0)
    return outcome.replace(
        reward=outcome.reward + cost,
        parts={**outcome.parts, COST_PART: cost},
        done=outcome.done & ~forgiven,
    )
