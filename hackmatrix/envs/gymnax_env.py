"""The game as an environment of Gymnax: as 1.x wants it, and as the versions before did."""

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
LONG = 1000  # steps: of 6,900 games of random valid actions none took more than 258


class EnvParams(struct.PyTreeNode):
    """The game itself knows no limit of steps."""

    max_steps_in_episode: Any = NEVER


class EnvState(struct.PyTreeNode):
    board: game.State
    time: Array  # steps taken


class Stepped(struct.PyTreeNode):
    """What a step led to: the state to go on with, and the board before a new game began."""

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
    """What the generations of the interface have in common. `invalid` says what an action that is
    not valid leads to: "end", "cost" or "redraw" (hackmatrix.envs.invalid_actions).

    Environments that are equal share what was compiled for them; some trainers copy theirs.
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
        """A step that ends with a game: observation, state, reward, terminated, information."""
        board, outcome = _step_of_one(self.invalid)(key, state.board, jnp.asarray(action))
        state = EnvState(board, state.time + 1)
        told = _information(board, outcome)
        return game.observe(board), state, outcome.reward, outcome.done, told

    def reset_env(self, key: Array, params: EnvParams) -> tuple[Array, EnvState]:
        board = game.reset(key)
        return game.observe(board), EnvState(board, jnp.int32(0))

    def get_obs(
        self, state: EnvState, params: EnvParams | None = None, key: Array | None = None
    ) -> Array:
        return game.observe(state.board)

    def is_terminated(self, state: EnvState, params: EnvParams) -> Array:
        """Whether the game of this state is won or lost. One that an invalid action has ended is
        neither.
        """
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
        """As in all of Gymnax, a new game begins where one has ended; but only the boards that need
        a new game pay for it, as long as they are many under one vmap.
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
        """Observation, state, reward, terminated, truncated, information."""
        params = self.default_params if params is None else params
        now = self._stepped(key, state, action, params)
        observation = game.observe(now.state.board)
        final = jnp.where(now.ended, game.observe(now.final), observation)
        information = {**now.information(), "final_observation": final}
        reward, terminated = now.outcome.reward, now.outcome.done
        return observation, now.state, reward, terminated, now.truncated, information


class HackMatrixGymnax0(_HackMatrix):
    """The interface of Gymnax before 1.0, which many trainers still speak.

    It cannot say "cut off", so a game that is cut off is done. Some trainers play until all games
    are done, and some keep the information of all steps: so there is a limit of steps, and no final
    observation.
    """

    @property
    def default_params(self) -> EnvParams:
        return EnvParams(max_steps_in_episode=LONG)

    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: Array, state: EnvState, action: Any, params: EnvParams | None = None
    ) -> tuple[Array, EnvState, Array, Array, Information]:
        """Observation, state, reward, done, information."""
        params = self.default_params if params is None else params
        now = self._stepped(key, state, action, params)
        observation = game.observe(now.state.board)
        return observation, now.state, now.outcome.reward, now.ended, now.information()


@cache
def _step_of_one(invalid: str) -> Any:
    """Outside of a program it is compiled once."""
    return play.compiled_once(play.one_board(partial(_step, invalid)))


def _step(
    invalid: str, keys: Array, boards: game.State, actions: Array
) -> tuple[game.State, game.Outcome]:
    """As game.step_batch, but for what an invalid action leads to."""
    key = as_key(keys)
    after, outcome, in_turn = invalid_actions.take_action(invalid, boards, key, actions)
    new_stage = outcome.stage_completed & ~outcome.won
    return play.go_on(after, key, in_turn, new_stage, jnp.zeros_like(new_stage)), outcome


def _step_or_restart(
    invalid: str,
    step_keys: Array,
    reset_keys: Array,
    boards: game.State,
    actions: Array,
    is_late: Array,
) -> tuple[game.State, game.State, game.Outcome, Array]:
    """The boards [E] to go on with, those the actions led to, what happened, which were cut off.

    A game is not cut off at the very step that completes a stage: its next board is yet to come.
    """
    step_key, reset_key = as_key(step_keys), as_key(reset_keys)
    after, outcome, in_turn = invalid_actions.take_action(invalid, boards, step_key, actions)
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
