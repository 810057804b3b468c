"""The game as a Gymnax 1.x environment."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import environment, spaces

from hackmatrix import game
from hackmatrix.envs import bounds
from hackmatrix.game import few, play, turn
from hackmatrix.game.randomness import as_key

Array = jax.Array
Information = dict[str, Any]
NEVER = (1 << 31) - 1


class EnvParams(struct.PyTreeNode):
    """The game itself knows no limit of steps."""

    max_steps_in_episode: Any = NEVER


class EnvState(struct.PyTreeNode):
    board: game.State
    time: Array  # steps taken


class HackMatrixGymnax(environment.Environment[EnvState, EnvParams]):
    """As in all of Gymnax, `step` begins a new game where one has ended; but only the boards that
    need a new game pay for it, as long as they are many under one vmap.
    """

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: Array, state: EnvState, action: Any, params: EnvParams | None = None
    ) -> tuple[Array, EnvState, Array, Array, Array, Information]:
        """Observation, state, reward, terminated, truncated, information."""
        key_step, key_reset = jax.random.split(key)
        time = state.time + 1
        params = self.default_params if params is None else params
        is_late = time >= params.max_steps_in_episode
        board, final, outcome, truncated = _step_or_restart(
            key_step, key_reset, state.board, jnp.asarray(action), is_late
        )
        ended = outcome.done | truncated
        observation = game.observe(board)
        information = {
            **_information(final, outcome),
            "terminated": outcome.done,
            "truncated": truncated,
            "final_observation": jnp.where(ended, game.observe(final), observation),
        }
        state = EnvState(board, jnp.where(ended, 0, time))
        return observation, state, outcome.reward, outcome.done, truncated, information

    def step_env(
        self, key: Array, state: EnvState, action: Any, params: EnvParams
    ) -> tuple[Array, EnvState, Array, Array, Information]:
        """A step that ends with a game: observation, state, reward, terminated, information."""
        board, outcome = game.step(key, state.board, jnp.asarray(action))
        state = EnvState(board, state.time + 1)
        told = _information(board, outcome)
        return game.observe(board), state, outcome.reward, outcome.done, told

    def reset_env(self, key: Array, params: EnvParams) -> tuple[Array, EnvState]:
        board = game.reset(key)
        return game.observe(board), EnvState(board, jnp.int32(0))

    def get_action_mask(self, state: EnvState) -> Array:
        """bool[28]: which actions are valid. Any other ends the game."""
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


@play.one_board
def _step_or_restart(
    step_keys: Array, reset_keys: Array, boards: game.State, actions: Array, is_late: Array
) -> tuple[game.State, game.State, game.Outcome, Array]:
    """The boards [E] to go on with, those the actions led to, what happened, which were cut off.

    A game is not cut off at the very step that completes a stage: its next board is yet to come.
    """
    step_key, reset_key = as_key(step_keys), as_key(reset_keys)
    after, outcome, in_turn = play.take_action(boards, step_key, actions)
    nowhere = jnp.zeros_like(in_turn)
    after = turn.end_turn(after, step_key, in_turn, nowhere)
    truncated = is_late & ~outcome.done & ~outcome.stage_completed
    ended = outcome.done | truncated
    key = jax.tree.map(partial(few.select, ended), reset_key, step_key)
    going_on = play.go_on(after, key, nowhere, outcome.stage_completed | ended, ended)
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
