"""Plays the game of another program, over the headless protocol on its stdin and stdout."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hackmatrix import estimates
from hackmatrix.errors import UserError
from hackmatrix.networks.files import About
from hackmatrix.standalone import inputs
from hackmatrix.standalone.policy import NumpyPolicy

MOST_STEPS = 2000  # of a game, as a policy may move back and forth for ever
_LONGEST_QUOTE = 80  # characters of an answer in an error message
WON = 9  # the stage after the last
_PATIENCE = 3.0  # seconds that the program has to exit by itself
# The required fields of the answers to these commands, with their types. The answer to another
# command may be any JSON object.
_REQUIRED_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "reset": {"observation": (dict,)},
    "getValidActions": {"validActions": (list,)},
    "step": {"observation": (dict,), "reward": (int, float), "done": (bool,)},
    "getInternalState": {"enemies": (list,)},
}


@dataclass(frozen=True)
class Played:
    """The result of a game, at its end or after MOST_STEPS. `total` is its return."""

    total: float
    is_over: bool
    stage: int
    score: int
    actions: list[int]

    @property
    def is_won(self) -> bool:
        return self.stage >= WON

    @property
    def summary(self) -> str:
        """The result in one line."""
        stage = "won" if self.is_won else f"stage {self.stage}"
        end = f"return {self.total:.2f}, {stage}, score {self.score}"
        stopped = "" if self.is_over else ", stopped before its end"
        return f"{end}, {len(self.actions):,} actions{stopped}"


def table(games: Sequence[Played]) -> list[str]:
    """Returns the lines of a table that summarises games, in the form of launch.evaluate."""
    stages = np.array([each.stage for each in games])
    ended = np.array([each.is_over for each in games])
    rows = {
        "return": estimates.mean(np.array([each.total for each in games])).shown(),
        "stage reached": estimates.mean(stages).within(1, WON).shown(),
        "completed stage 1 (%)": estimates.proportion(stages > 1).shown(100),
        "won (%)": estimates.proportion(stages >= WON).shown(100),
        "came to an end (%)": estimates.proportion(ended).shown(100),
    }
    return [f"{title:<24} {cell:>27}" for title, cell in rows.items()]


def check_plays(policy: About) -> None:
    """Raises UserError if the policy has other inputs or actions than HackMatrix, or has them in
    another order. Files of the first format do not name their inputs.
    """
    size, actions = sum(map(math.prod, policy.observation.values())), len(policy.actions)
    if (size, actions) != (inputs.SIZE, inputs.ACTIONS):
        raise UserError(
            f"this policy plays {policy.env}, with {size} inputs and {actions} actions; "
            f"HackMatrix has {inputs.SIZE} and {inputs.ACTIONS}"
        )
    parts, names = list(policy.observation.items()), policy.actions
    if len(parts) > 1 and (parts != list(inputs.PARTS.items()) or names != inputs.ACTION_NAMES):
        raise UserError(
            f"this policy plays {policy.env}, whose observation or actions have other names, or "
            "another order, than those of HackMatrix"
        )


class GameProgram:
    """A game program, started with `command`, a list of words; a context manager that ends it."""

    def __init__(self, command: Sequence[str]) -> None:
        if isinstance(command, str) or not command:
            raise UserError(
                "the command of a game program must be a list of words, such as "
                f'["./game", "--headless-cli"], not {command!r}'
            )
        try:
            self._program = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"cannot start the game program {command[0]}: {why}") from error

    def ask(self, action: str, **rest: Any) -> Any:
        """Sends a command and returns the answer."""
        if not (line := self._answer(json.dumps({"action": action, **rest}))):
            raise UserError("the game program has exited")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and "error" in answer:
            raise UserError(f"the game program reports an error: {answer['error']}")
        if not _has_fields(answer, _REQUIRED_FIELDS.get(action, {})):
            raise UserError(
                "the game program does not speak the headless protocol: it answered "
                f"{action!r} with {textwrap.shorten(line, _LONGEST_QUOTE)}"
            )
        return answer

    def _answer(self, command: str) -> str:
        assert self._program.stdin
        assert self._program.stdout
        if self._program.stdin.closed:
            return ""
        with suppress(BrokenPipeError):  # the program may have answered before it exited
            self._program.stdin.write(command + "\n")
            self._program.stdin.flush()
        return self._program.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the program's input, at which it should exit; kills it after `_PATIENCE`."""
        assert self._program.stdin
        assert self._program.stdout
        with suppress(BrokenPipeError):
            self._program.stdin.close()
        try:
            self._program.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._program.stdout.close()


def _has_fields(answer: Any, wanted: dict[str, tuple[type, ...]]) -> bool:
    return isinstance(answer, dict) and all(
        type(answer.get(name)) in kinds for name, kinds in wanted.items()
    )


# Chooses an action, from the program (to ask it for more), the observation, the valid actions, and
# the previous action (None in a new game).
Decide = Callable[[GameProgram, inputs.Json, list[int], int | None], int]


def at_once(policy: NumpyPolicy, draws: np.random.Generator | None = None) -> Decide:
    """Decides by the policy alone: draws actions, or without `draws` takes the likeliest."""

    def decide(_: GameProgram, seen: inputs.Json, valid: list[int], __: int | None) -> int:
        return int(policy.act(*policy_inputs(seen, valid), draws))

    return decide


def policy_inputs(seen: inputs.Json, valid: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the observation f32[1545] and the mask bool[28] of the program's answers."""
    with parsing():
        observation, mask = inputs.vector(seen), inputs.mask(valid)
        if observation.shape != (inputs.SIZE,):
            raise ValueError(f"{len(observation)} numbers instead of {inputs.SIZE}")
        if not np.isfinite(observation).all() or not mask.any():
            raise ValueError("a number is not finite, or no action is valid")
    return observation, mask


@contextmanager
def parsing() -> Iterator[None]:
    """Turns errors from reading the program's answers about a board into a UserError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(
            "the game program describes the board in a form other than the headless protocol's: "
            f"{type(error).__name__}: {error}"
        ) from None


def _finite(reward: float) -> float:
    if not abs(reward) <= sys.float_info.max:  # also false for NaN
        shown = textwrap.shorten(str(reward), _LONGEST_QUOTE)
        raise UserError(f"the game program returned a reward that is not finite: {shown}")
    return reward


def play(program: GameProgram, decide: Decide) -> Played:
    """Plays a new game to its end, or for MOST_STEPS."""
    seen = program.ask("reset")["observation"]
    total, done = 0.0, False
    actions: list[int] = []
    while not done and len(actions) < MOST_STEPS:
        valid = program.ask("getValidActions")["validActions"]
        actions.append(decide(program, seen, valid, actions[-1] if actions else None))
        answer = program.ask("step", actionIndex=actions[-1])
        seen, done = answer["observation"], answer["done"]
        total += _finite(answer["reward"])
    stage, score = seen.get("stage"), seen.get("score")
    if type(stage) is not int or not 1 <= stage <= WON or type(score) is not int:
        raise UserError(
            "the game program ended a game with values outside of the headless protocol: "
            f"stage {stage!r} and score {score!r}"
        )
    return Played(
        total, done, WON if done and _completes_a_stage(answer) else stage, score, actions
    )


def _completes_a_stage(answer: inputs.Json) -> bool:
    """Whether the last step completed a stage. The canonical program does not raise the stage when
    the last one is completed, so this shows that the game was won.
    """
    info = answer.get("info")
    return isinstance(info, dict) and info.get("stage_complete") is True
