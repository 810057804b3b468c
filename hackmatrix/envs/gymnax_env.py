"""The game as a Gymnax environment, for Gymnax 1.x and for the versions before it."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import environment, spaces

from hackmatrix import game
from hackmatrix.envs import bounds, invalid_actions
from hackmatrix.game import few, play, turn
from hackmatrix.game.randomness import as_key
from hackmatrix.game.state import STAGES

Array = jax.Array
Information = dict[str, Any]
NEVER = (1 << 31) - 1
LONG = 1000  # steps; none of 6,900 games of random valid actions took more than 258


class EnvParams(struct.PyTreeNode):
    """Parameters of the environment. The game itself has no limit of steps."""

    max_steps_in_episode: Any = NEVER


class EnvState(struct.PyTreeNode):
    board: game.State
    time: Array  # steps taken


class Stepped(struct.PyTreeNode):
    """The result of a step: the state to continue from, and the board before any new game."""

    state: EnvState
    final: game.State
    outcome: game.Outcome
    truncated: Array

    @property
    def ended(self) -> Array:
        return self.outcome.done | self.truncated

    def information(self) -> Information:
        return {
            **_information(self.final, self.outcome),
            "terminated": self.outcome.done,
            "truncated": self.truncated,
        }


class _HackMatrix(environment.Environment[EnvState, EnvParams]):
    """What both versions of the interface have in common. `invalid` selects what an invalid action
    does: "end", "cost" or "redraw" (hackmatrix.envs.invalid_actions).

    Equal environments share compiled programs, since some trainers copy theirs.
    """

    def __init__(self, invalid: str = "end") -> None:
        self.invalid = invalid_actions.checked(invalid)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.invalid))

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def step_env(
        self, key: Array, state: EnvState, action: Any, params: EnvParams
    ) -> tuple[Array, EnvState, Array, Array, Information]:
        """Takes a step, without restarting an ended game: returns observation, state, reward,
        terminated, information.
        """
        board, outcome = _step_of_one(self.invalid)(key, state.board, jnp.asarray(action))
        state = EnvState(board, state.time + 1)
        told = _information(board, outcome)
        return game.observe(board), state, outcome.reward, outcome.done, told

    def reset_env(self, key: Array, params: EnvParams) -> tuple[Array, EnvState]:
        board = game.reset(key)
        # No constant: in shard_map a loop cannot begin with one and go on with what varies.
        return game.observe(board), EnvState(board, jnp.zeros_like(board.turn))

    def get_obs(
        self, state: EnvState, params: EnvParams | None = None, key: Array | None = None
    ) -> Array:
        return game.observe(state.board)

    def is_terminated(self, state: EnvState, params: EnvParams) -> Array:
        """Whether the game is won or lost; False for one that an invalid action has ended."""
        return (state.board.player.hp <= 0) | (state.board.stage > STAGES)

    def get_action_mask(self, state: EnvState) -> Array:
        """bool[28]: which actions are valid."""
        return game.valid_actions(state.board)

    @property
    def name(self) -> str:
        return "HackMatrix-v0"

    @property
    def num_actions(self) -> int:
        return game.ACTIONS

    def action_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        return spaces.Discrete(game.ACTIONS)

    def observation_space(self, params: EnvParams | None = None) -> spaces.Box:
        high = jnp.asarray(bounds.highest())
        return spaces.Box(jnp.zeros_like(high), high, high.shape, jnp.float32)

    def _stepped(self, key: Array, state: EnvState, action: Any, params: EnvParams) -> Stepped:
        """Takes a step, and begins a new game where one has ended, as all of Gymnax does. Among
        many boards under vmap, only those that need a new game pay for it.
        """
        step_key, reset_key = jax.random.split(key)
        time = state.time + 1
        step = play.one_board(partial(_step_or_restart, self.invalid))
        board, final, outcome, truncated = step(
            step_key,
            reset_key,
            state.board,
            jnp.asarray(action),
            time >= params.max_steps_in_episode,
        )
        time = jnp.where(outcome.done | truncated, 0, time)
        return Stepped(EnvState(board, time), final, outcome, truncated)


class HackMatrixGymnax(_HackMatrix):
    """The interface of Gymnax 1.x."""

    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: Array, state: EnvState, action: Any, params: EnvParams | None = None
    ) -> tuple[Array, EnvState, Array, Array, Array, Information]:
        """Returns observation, state, reward, terminated, truncated, information."""
        params = self.default_params if params is None else params
        now = self._stepped(key, state, action, params)
        observation = game.observe(now.state.board)
        final = jnp.where(now.ended, game.observe(now.final), observation)
        information = {**now.information(), "final_observation": final}
        reward, terminated = now.outcome.reward, now.outcome.done
        return observation, now.state, reward, terminated, now.truncated, information


class HackMatrixGymnax0(_HackMatrix):
    """The interface of Gymnax before 1.0, which many trainers still use.

    It has no truncation, so a truncated game counts as done. There is a limit of steps, because
    some trainers play until all games are done, and no final observation, because some store the
    information of all steps.
    """

    @property
    def default_params(self) -> EnvParams:
        return EnvParams(max_steps_in_episode=LONG)

    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: Array, state: EnvState, action: Any, params: EnvParams | None = None
    ) -> tuple[Array, EnvState, Array, Array, Information]:
        """Returns observation, state, reward, done, information."""
        params = self.default_params if params is None else params
        now = self._stepped(key, state, action, params)
        observation = game.observe(now.state.board)
        return observation, now.state, now.outcome.reward, now.ended, now.information()


@cache
def _step_of_one(invalid: str) -> Any:
    """Returns `_step` for one board, compiled once if called outside of a compiled program."""
    return play.compiled_once(play.one_board(partial(_step, invalid)))


def _step(
    invalid: str, keys: Array, boards: game.State, actions: Array
) -> tuple[game.State, game.Outcome]:
    """Like game.step_batch, except for what an invalid action does."""
    key = as_key(keys)
    after, outcome, in_turn = invalid_actions.take_action(invalid, boards, key, actions)
    new_stage = outcome.stage_completed & ~outcome.won
    return play.finish_step(after, key, in_turn, new_stage, jnp.zeros_like(new_stage)), outcome


def _step_or_restart(
    invalid: str,
    step_keys: Array,
    reset_keys: Array,
    boards: game.State,
    actions: Array,
    is_late: Array,
) -> tuple[game.State, game.State, game.Outcome, Array]:
    """Takes a step and restarts ended games. Returns the boards [E] to continue from, those before
    any restart, the outcome, and which games were truncated, bool[E].

    A game is not truncated at a step that completes a stage, as its next board is not drawn yet.
    """
    step_key, reset_key = as_key(step_keys), as_key(reset_keys)
    after, outcome, in_turn = invalid_actions.take_action(invalid, boards, step_key, actions)
    nowhere = jnp.zeros_like(in_turn)
    after = turn.end_turn(after, step_key, in_turn, nowhere)
    truncated = is_late & ~outcome.done & ~outcome.stage_completed
    ended = outcome.done | truncated
    key = jax.tree.map(partial(few.select, ended), reset_key, step_key)
    going_on = play.finish_step(after, key, nowhere, outcome.stage_completed | ended, ended)
    return going_on, after, outcome, truncated


def _information(board: game.State, outcome: game.Outcome) -> Information:
    return {
        "stage": board.stage,
        "score": board.player.score,
        "hp": board.player.hp,
        "stage_completed": outcome.stage_completed,
        "won": outcome.won,
        "died": outcome.died,
        "invalid": outcome.invalid,
        "reward_parts": outcome.parts,
    }
