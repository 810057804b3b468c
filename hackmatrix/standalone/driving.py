"""Plays the game of another program, which speaks the headless protocol on its pipes."""

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

MOST_STEPS = 2000  # of a game: a policy may move back and forth for ever
_LONGEST_QUOTE = 80
WON = 9  # the stage after the last
_PATIENCE = 3.0  # seconds that the program has to end by itself
# What the answers to these commands tell; those to others are objects of any kind.
_TOLD: dict[str, dict[str, tuple[type, ...]]] = {
    "reset": {"observation": (dict,)},
    "getValidActions": {"validActions": (list,)},
    "step": {"observation": (dict,), "reward": (int, float), "done": (bool,)},
    "getInternalState": {"enemies": (list,)},
}


@dataclass(frozen=True)
class Played:
    """How a game went, to its end or as far as MOST_STEPS. `actions` are those taken."""

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
        """In a line."""
        stage = "won" if self.is_won else f"stage {self.stage}"
        end = f"return {self.total:.2f}, {stage}, score {self.score}"
        stopped = "" if self.is_over else ", stopped before its end"
        return f"{end}, {len(self.actions):,} actions{stopped}"


def table(games: Sequence[Played]) -> list[str]:
    """What many games came to, as launch.evaluate tells of those that it plays: a line each."""
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
    """UserError if the policy is none for HackMatrix."""
    size, actions = sum(map(math.prod, policy.observation.values())), len(policy.actions)
    if (size, actions) != (inputs.SIZE, inputs.ACTIONS):
        raise UserError(
            f"this policy plays {policy.env}, with {size} inputs and {actions} actions; "
            f"HackMatrix has {inputs.SIZE} and {inputs.ACTIONS}"
        )


class GameProgram:
    """The program, from its start to its end; its command is a list of words."""

    def __init__(self, command: Sequence[str]) -> None:
        if isinstance(command, str) or not command:
            raise UserError(
                'the command of the game is a list of words, such as ["./game", "--headless-cli"], '
                f"not {command!r}"
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
            raise UserError(f"the program of the game cannot start: {command[0]}: {why}") from error

    def ask(self, action: str, **rest: Any) -> Any:
        """The answer to a command."""
        if not (line := self._answer(json.dumps({"action": action, **rest}))):
            raise UserError("the program of the game has ended")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and "error" in answer:
            raise UserError(f"the program of the game says: {answer['error']}")
        if not _tells(answer, _TOLD.get(action, {})):
            raise UserError(
                f"the program of the game does not speak the headless protocol: it answered "
                f"{action!r} with {textwrap.shorten(line, _LONGEST_QUOTE)}"
            )
        return answer

    def _answer(self, command: str) -> str:
        assert self._program.stdin
        assert self._program.stdout
        if self._program.stdin.closed:
            return ""
        with suppress(BrokenPipeError):  # it may have answered before it ended
            self._program.stdin.write(command + "\n")
            self._program.stdin.flush()
        return self._program.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends its input, and so the program; soon, or it is killed."""
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


def _tells(answer: Any, wanted: dict[str, tuple[type, ...]]) -> bool:
    return isinstance(answer, dict) and all(
        type(answer.get(name)) in kinds for name, kinds in wanted.items()
    )


# Gives the action to take. It is given the program, to ask for more, what is seen, the valid
# actions, and the action before (None in a new game).
Decide = Callable[[GameProgram, inputs.Json, list[int], int | None], int]


def at_once(policy: NumpyPolicy, draws: np.random.Generator | None = None) -> Decide:
    """Actions drawn from the policy, or else the likeliest in each turn."""

    def decide(_: GameProgram, seen: inputs.Json, valid: list[int], __: int | None) -> int:
        return int(policy.act(*looked_at(seen, valid), draws))

    return decide


def looked_at(seen: inputs.Json, valid: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The observation f32[1545] of a board, and the mask bool[28]."""
    with understood():
        observation, mask = inputs.vector(seen), inputs.mask(valid)
        if observation.shape != (inputs.SIZE,):
            raise ValueError(f"{len(observation)} numbers of {inputs.SIZE}")
        if not np.isfinite(observation).all() or not mask.any():
            raise ValueError("a number is not finite, or no action is valid")
    return observation, mask


@contextmanager
def understood() -> Iterator[None]:
    """UserError where the work inside fails on what the program has told of a board."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(
            "the program of the game does not tell of a board as the headless protocol does: "
            f"{type(error).__name__}: {error}"
        ) from None


def _reward(told: float) -> float:
    if not abs(told) <= sys.float_info.max:  # nor where it is no number
        shown = textwrap.shorten(str(told), _LONGEST_QUOTE)
        raise UserError(f"the program of the game gives a reward that is not finite: {shown}")
    return told


def play(program: GameProgram, decide: Decide) -> Played:
    """A new game."""
    seen = program.ask("reset")["observation"]
    total, done = 0.0, False
    actions: list[int] = []
    while not done and len(actions) < MOST_STEPS:
        valid = program.ask("getValidActions")["validActions"]
        actions.append(decide(program, seen, valid, actions[-1] if actions else None))
        answer = program.ask("step", actionIndex=actions[-1])
        seen, done = answer["observation"], answer["done"]
        total += _reward(answer["reward"])
    stage, score = seen.get("stage"), seen.get("score")
    if type(stage) is not int or not 1 <= stage <= WON or type(score) is not int:
        raise UserError(
            "the program of the game does not end as in the headless protocol: with stage "
            f"{stage!r} and score {score!r}"
        )
    return Played(
        total, done, WON if done and _completes_a_stage(answer) else stage, score, actions
    )


def _completes_a_stage(answer: inputs.Json) -> bool:
    """The canonical program leaves the stage at the last one when that is completed."""
    info = answer.get("info")
    return isinstance(info, dict) and info.get("stage_complete") is True
