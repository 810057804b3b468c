"""New games, and steps of games: one action with all that follows from it.

The rules are written once, for a batch. The public functions of one board run a batch of one, and
under vmap one large batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.typing import ArrayLike

from hackmatrix.game import checks, few, history, moves, programs, reward, stages
from hackmatrix.game.programs import Program
from hackmatrix.game.randomness import Key, as_key
from hackmatrix.game.siphon import missed_elsewhere, siphon
from hackmatrix.game.state import (
    FIRST_PROGRAM,
    HISTORY_DEPTH,
    SIPHON,
    STAGES,
    Effects,
    Outcome,
    State,
)
from hackmatrix.game.turn import end_turn, enemy_turn
from hackmatrix.game.valid import is_valid

Array = jax.Array
Params = ParamSpec("Params")
Tree = TypeVar("Tree")
NO_ACTION = -1


def compiled_once(
    function: Callable[Params, Tree], static: tuple[str, ...] = ()
) -> Callable[Params, Tree]:
    """Jits a function, to be inlined into jitted callers. Without jit, a call from plain Python
    would compile its loops again every time. `static` names the static arguments.
    """
    return jax.jit(function, static_argnames=static, inline=True)


def one_board(batch: Callable[..., Tree]) -> Callable[..., Tree]:
    """Makes a function of one board from a function of a batch. Under vmap, however deep, it calls
    that function once, on one flat batch, so that rare rules stay cheap.
    """

    @custom_vmap
    def boards(*args: Any) -> Tree:
        return batch(*args)

    @boards.def_vmap
    def batches(size: int, batched: list[Any], *args: Any) -> tuple[Tree, Any]:
        places = jax.tree.leaves(args)[0].shape[int(jax.tree.leaves(batched)[0])]

        def side_by_side(leaf: Array, is_batched: bool) -> Array:
            each = leaf if is_batched else jnp.broadcast_to(leaf, (size, *leaf.shape))
            return each.reshape(size * places, *each.shape[2:])

        def apart(leaf: Array) -> Array:
            return leaf.reshape(size, places, *leaf.shape[1:])

        result = boards(*jax.tree.map(side_by_side, args, tuple(batched)))
        return jax.tree.map(apart, result), jax.tree.map(lambda leaf: True, result)

    def one(*args: Any) -> Tree:
        return _only(boards(*jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], args)))

    return one


def reset(key: Array, history_depth: int = HISTORY_DEPTH) -> State:
    """Returns a new game, whose history has room for `history_depth` snapshots."""
    return _reset(history_depth)(key)


@functools.cache
def _reset(history_depth: int) -> Callable[[Array], State]:
    return compiled_once(one_board(lambda keys: reset_batch(keys, history_depth)))


@functools.partial(compiled_once, static=("history_depth",))
def reset_batch(keys: Array, history_depth: int = HISTORY_DEPTH) -> State:
    """Returns new games [E], one for each key."""
    each = as_key(keys)
    checks.boards(each.low.shape)
    depth = checks.integer(history_depth, "history_depth", 1, history.DEEPEST)
    return stages.generate(stages.new_game(each, history.empty(depth, each.low)), each)


def step(key: Array, state: State, action: ArrayLike) -> tuple[State, Outcome]:
    """Takes an action (0 to 27). An invalid one changes nothing and ends the game. A step after the
    end goes on with the same board; what follows the first `done` does not count.
    """
    # Strongly typed, or an int of Python would compile the step once more.
    return _step(key, state, jnp.asarray(action, jnp.result_type(action)))


@compiled_once
def step_batch(keys: Array, states: State, actions: Array) -> tuple[State, Outcome]:
    """Takes an action on each of [E] boards, as `step` does on one."""
    return _stepped(keys, states, actions, restart=False)


_step = compiled_once(one_board(step_batch))


@compiled_once
def step_batch_and_restart(keys: Array, states: State, actions: Array) -> tuple[State, Outcome]:
    """Takes an action on each of [E] boards, and starts a new game where one has ended."""
    return _stepped(keys, states, actions, restart=True)


def _stepped(keys: Array, states: State, actions: Array, restart: bool) -> tuple[State, Outcome]:
    key = as_key(keys)
    one_for_all = {} if jnp.ndim(actions) == 0 else {"actions": actions}
    checks.boards(key.low.shape, states=states.stage, **one_for_all)
    state, outcome = play(key, states, actions, restart)
    return state, reward.in_floats(outcome)


def play(key: Key, states: State, actions: Array, restart: bool) -> tuple[State, Outcome]:
    """Takes an action on each board, and starts new games where they have ended if `restart`. The
    rewards are in whole units (`reward`).
    """
    state, outcome, in_turn = take_action(states, key, actions)
    if restart:
        new_stage, new_game = outcome.stage_completed | outcome.done, outcome.done
    else:
        new_stage = outcome.stage_completed & ~outcome.won
        new_game = jnp.zeros_like(new_stage)
    return finish_step(state, key, in_turn, new_stage, new_game), outcome


def finish_step(state: State, key: Key, in_turn: Array, new_stage: Array, new_game: Array) -> State:
    """Ends the enemy turn on the boards `in_turn`, and draws the boards of the next stage or game.
    `new_stage` must hold wherever `new_game` does.
    """
    # The boards of new games and of new stages are drawn in one pass.
    fresh = stages.new_game(key, state.history.forgotten()).replace(board=state.board)
    state = jax.tree.map(
        lambda new, old: old if new is old else few.select(new_game, new, old), fresh, state
    )
    state = stages.draw_next_boards(state, key, new_stage, few.NEW_BOARDS)
    return end_turn(state, key, in_turn & ~new_stage, new_stage)


def take_action(before: State, key: Key, actions: Array) -> tuple[State, Outcome, Array]:
    """Takes an action on each of [E] boards, up to the point where its outcome is known. Rewards
    are in whole units. Also returns the boards whose enemy turn is still to be ended.
    """
    action = jnp.asarray(actions)
    if not jnp.issubdtype(action.dtype, jnp.integer):
        raise ValueError(f"actions must be integers, got {action.dtype}")
    action = action.astype(jnp.int32)
    valid = is_valid(before, action)
    action = jnp.where(valid, action, NO_ACTION)

    state, effects = act(before, key, action)
    completed = is_completed(before, state, action)
    state = stages.complete_stage(state, completed)
    takes_turn = (action >= 0) & ((action < FIRST_PROGRAM) | (action == Program.WAIT)) & ~completed
    state, in_turn = enemy_turn(state, key, takes_turn)
    died = takes_turn & (state.player.hp == 0)
    won = completed & (before.stage == STAGES)

    units = reward.reward_units(
        before,
        state,
        action=action,
        valid=valid,
        completed=completed,
        died=died,
        effects=effects,
        closer=_closer(before, state, completed),
    )
    outcome = Outcome(
        reward=sum(units.values(), start=jnp.int32(0)),
        parts=units,
        done=won | died | ~valid,
        invalid=~valid,
        stage_completed=completed,
        won=won,
        died=died,
    )
    return state, outcome, in_turn


def act(state: State, key: Key, action: Array) -> tuple[State, Effects]:
    """Applies the player's action alone. Removed entries leave holes in the lists."""
    is_move = (action >= 0) & (action < SIPHON)
    state, effects = moves.move(state, is_move, jnp.where(is_move, action, 0))
    state, _, _, effects = few.apply_once(
        action >= SIPHON, _act_specially, (state, key, action, effects), few.SPECIAL_ACTIONS
    )
    return state, effects


def _act_specially(
    boards: tuple[State, Key, Array, Effects],
) -> tuple[State, Key, Array, Effects]:
    """Applies a siphon or a program."""
    state, key, action, effects = boards
    siphons = action == SIPHON
    missed = missed_elsewhere(state)
    state = siphon(state, siphons)
    state, killed = programs.run(state, key, action)
    effects = effects.replace(kills=killed, missed=jnp.where(siphons, missed, 0))
    return state, key, action, effects


def is_completed(before: State, after: State, action: Array) -> Array:
    """Returns whether the action completed the stage: by a walk onto a cell that holds an exit, or
    by a WARP to the position of the exit.
    """
    walked = (action >= 0) & (action < SIPHON) & (before.player.cell != after.player.cell)
    on_exit = walked & after.board.exit.has(after.player.cell)
    return on_exit | ((action == Program.WARP) & (after.player.cell == after.exit_cell))


def _closer(before: State, after: State, completed: Array) -> Array:
    """Returns by how many steps the way to the exit got shorter; never negative."""
    was, now = reward.distances_to_exit(before, after)
    return jnp.maximum(was - jnp.where(completed, 0, now), 0)


def _only(batch: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf[0], batch)
