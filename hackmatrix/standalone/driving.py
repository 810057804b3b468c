"""Plays the game of another program, which speaks the headless protocol on its pipes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from hackmatrix.standalone import inputs
from hackmatrix.standalone.policy import NumpyPolicy

MOST_STEPS = 2000  # of a game: a policy may walk to and fro for ever


@dataclass(frozen=True)
class Played:
    """How a game went. `actions` are those taken, in their order."""

    total: float
    stage: int
    score: int
    actions: list[int]


class GameProgram:
    """The program, from its start to its end."""

    def __init__(self, command: Sequence[str]) -> None:
        self._program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, action: str, **rest: Any) -> Any:
        """The answer to a command; ConnectionError if there is none."""
        assert self._program.stdin
        assert self._program.stdout
        self._program.stdin.write(json.dumps({"action": action, **rest}) + "\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        if not line:
            raise ConnectionError("the program of the game has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ConnectionError(f"the program of the game says: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends its input, and so the program."""
        self._program.communicate()


def play(program: GameProgram, policy: NumpyPolicy) -> Played:
    """A new game, with the likeliest action in each turn."""
    seen = program.ask("reset")["observation"]
    total, done = 0.0, False
    actions: list[int] = []
    while not done and len(actions) < MOST_STEPS:
        valid = program.ask("getValidActions")["validActions"]
        action = policy.act(inputs.vector(seen), inputs.mask(valid))
        answer = program.ask("step", actionIndex=action)
        seen, done = answer["observation"], answer["done"]
        total += answer["reward"]
        actions.append(action)
    return Played(total, seen["stage"], seen["score"], actions)
