"""The programs that change a number or a flag, or restore a snapshot."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import digits, history
from hackmatrix.game.programs.contract import NO_KILLS, Situation
from hackmatrix.game.randomness import Key
from hackmatrix.game.state import MAX_HP, STAGES, State

Array = jax.Array
ATK_USES = 2  # in a stage


def wait(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Does nothing. The enemy turn follows."""
    return state, NO_KILLS


def undo(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Takes the newest snapshot off the history and restores it."""
    return history.undo(state, active), NO_KILLS


def is_any_snapshot(now: Situation) -> Array:
    return now.state.history.depth > 0


def step(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Cancels the next enemy turn."""
    return state.replace(step=state.step | active), NO_KILLS


def siph(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Gives one data siphon."""
    player = state.player
    return state.replace(player=player.replace(data_siphons=player.data_siphons + active)), NO_KILLS


def exch(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Gives 4 energy."""
    player = state.player
    return state.replace(player=player.replace(energy=player.energy + 4 * active)), NO_KILLS


def show(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Cryptogs and the kinds of transmissions are seen until the stage ends."""
    return state.replace(show=state.show | active), NO_KILLS


def is_show_off(now: Situation) -> Array:
    return ~now.state.show


def reset(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Restores all hit points."""
    player = state.player
    return state.replace(player=player.replace(hp=jnp.where(active, MAX_HP, player.hp))), NO_KILLS


def is_hurt(now: Situation) -> Array:
    return now.state.player.hp < MAX_HP


def calm(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """No scheduled transmissions appear until the stage ends."""
    return state.replace(calm=state.calm | active), NO_KILLS


def is_calm_off(now: Situation) -> Array:
    return ~now.state.calm


def delay(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Gives every transmission 3 turns more, up to the greatest number that fits its digits."""
    transmissions = state.transmissions
    delayed = jnp.where(active, transmissions.present, 0)
    turns = digits.add(transmissions.turns, (delayed, delayed))
    turns = digits.saturate(turns, len(transmissions.turns))
    return state.replace(transmissions=transmissions.replace(turns=turns)), NO_KILLS


def is_any_transmission(now: Situation) -> Array:
    return now.state.transmissions.present != 0


def score(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Adds to the score the number of stages that are still to come."""
    player = state.player
    gained = jnp.where(active, STAGES - state.stage, 0)
    return state.replace(player=player.replace(score=player.score + gained)), NO_KILLS


def is_before_last_stage(now: Situation) -> Array:
    return now.state.stage < STAGES


def reduc(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Takes 1 off the spawn of every block that is not siphoned, not below 0."""
    board = state.board
    reduced = ((board.blocks - board.siphoned) & digits.nonzero(board.spawn)).only_if(active)
    spawn = digits.minus_one(board.spawn, reduced)
    return state.replace(board=board.replace(spawn=spawn)), NO_KILLS


def is_any_block_reducible(now: Situation) -> Array:
    board = now.state.board
    return ((board.blocks - board.siphoned) & digits.nonzero(board.spawn)).any()


def atk(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Raises the attack damage by 1 for the rest of the game."""
    player = state.player.replace(attack=state.player.attack + active)
    return state.replace(player=player, atk_uses=state.atk_uses + active), NO_KILLS


def is_atk_left(now: Situation) -> Array:
    return now.state.atk_uses < ATK_USES
