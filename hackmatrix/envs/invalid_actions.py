"""What an action that is not valid leads to.

The rules say that it ends the game, for no reward. A learner that knows no mask would then be paid
to give up at once, as a game that is played badly costs it more; so clients can choose otherwise.
Valid actions lead to the same whatever is chosen.
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
    "redraw",  # a valid action is drawn in its place, each as likely as the others
)
# A step of a player that takes any valid action costs 0.08: to do nothing must not be cheaper.
INVALID_COST = 0.25
COST_PART = "invalid_action"  # the part of the reward that says so
# The game's own draws are for smaller numbers (randomness.Purpose).
PURPOSE = 1 << 16


def checked(choice: str) -> str:
    if choice not in CHOICES:
        raise ValueError(f"invalid={choice!r} is none of {', '.join(CHOICES)}")
    return choice


def parts(choice: str) -> tuple[str, ...]:
    """What the reward is the sum of."""
    return (*game.PARTS, COST_PART) if choice == "cost" else game.PARTS


def take_action(
    choice: str, before: game.State, key: Key, actions: Array
) -> tuple[game.State, game.Outcome, Array]:
    """As play.take_action, but for what an invalid action leads to. `outcome.invalid` tells of the
    action that was given. Where no action is valid, the game ends whatever is chosen.
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
    """The actions, invalid ones replaced by valid ones."""
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
