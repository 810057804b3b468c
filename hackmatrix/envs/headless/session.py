"""The headless protocol: one JSON object per line, in and out.

Programs that drive the canonical game over pipes can drive this one instead. No line ends a
session: an invalid command is answered with an error, and changes nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from hackmatrix import game
from hackmatrix.envs.headless.memory import Snapshots
from hackmatrix.envs.headless.remembered import RememberedGame
from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import Json, internal_state
from hackmatrix.envs.hosted import HostedGames, Turn
from hackmatrix.game import scenario
from hackmatrix.game.cells import SIZE
from hackmatrix.game.reward import UNITS


class Decision(NamedTuple):
    """What a policy decides on a board: the action, the probability of each [28], the value."""

    action: int
    probabilities: list[float]
    value: float


# Decides from the observation f32[1545], the mask bool[28], the step, which selects the random
# draws, and the state (a batch of one), which policies that look ahead need.
Choose = Callable[[np.ndarray, np.ndarray, int, game.State], Decision]

_LOG = logging.getLogger(__name__)
LONGEST_LINE = 1 << 20
_LONGEST_ERROR = 300
_SPACE = {"gridSize": SIZE, "playerFeatures": 9, "cellFeatures": 20}
_PARTS = {
    "stage": "stage_completion",
    "score": "score_gain",
    "kills": "kills",
    "dataSiphon": "data_siphon",
    "distance": "distance_shaping",
    "victory": "victory",
    "death": "death_penalty",
    "resourceGain": "resource_gain",
    "resourceHolding": "resource_holding",
    "damagePenalty": "damage_penalty",
    "hpRecovery": "hp_recovery",
    "siphonQuality": "siphon_quality",
    "programWaste": "program_waste",
    "siphonDeathPenalty": "siphon_death_penalty",
}


def converse(session: Session, lines: BinaryIO, answers: BinaryIO) -> None:
    """Answers each line, until there are no more."""
    _LOG.info("ready for commands")
    for line in _whole_lines(lines):
        answer = session.answer(line)
        answers.write(answer + b"\n")
        answers.flush()
        _LOG.debug("%r -> %r", line, answer)
    _LOG.info("end of input")


def _whole_lines(lines: BinaryIO) -> Iterator[bytes]:
    """Yields the lines; of one that is longer than any command, only the beginning."""
    while line := lines.readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = lines.readline(LONGEST_LINE)
        yield line


class CommandError(Exception):
    """Raised for a command that is answered with an error; a long reason is cut off."""

    def __init__(self, reason: str) -> None:
        short = len(reason) <= _LONGEST_ERROR
        super().__init__(reason if short else f"{reason[:_LONGEST_ERROR]}...")


class Session:
    """A client's game. Its draws depend on the seed and the number of turns, as in HostedGames.
    `choose` answers requests for advice.
    """

    def __init__(self, seed: int | None = None, choose: Choose | None = None) -> None:
        self._games = HostedGames(1)
        self._games.seed(0, np.random.default_rng(seed))
        self._choose = choose
        self._game: _Game | None = None

    def warm_up(self) -> None:
        """Compiles the game and the policy, so that no command has to wait for that."""
        blank = self._games.look()
        if self._choose:
            seen, mask = np.asarray(blank.observation[0]), np.asarray(blank.mask[0])
            self._choose(seen, mask, 0, self._games.states)

    def answer(self, line: bytes) -> bytes:
        """Returns the answer to a line, without a newline."""
        try:
            answer = self._obey(_read_command(line))
        except CommandError as error:
            answer = {"error": str(error)}
        except RecursionError:  # nested too deeply to be read or quoted
            answer = {"error": "Invalid command"}
        return json.dumps(answer, separators=(",", ":")).encode()

    def _obey(self, command: Json) -> Json:
        match command["action"]:
            case "reset":
                return self._reset(command.get("seed"))
            case "step":
                return self._step(command.get("actionIndex"))
            case "getValidActions":
                return {"validActions": np.flatnonzero(self._playing().mask).tolist()}
            case "getActionSpace":
                return {"actionSpaceSize": game.ACTIONS}
            case "getObservationSpace":
                return _SPACE
            case "setState":
                return self._set_state(command.get("state"))
            case "getInternalState":
                return internal_state(self._playing().board)
            case "getAdvice":
                return self._advice()
            case unknown:
                raise CommandError(f"Unknown command: {unknown}")

    def _reset(self, seed: Any) -> Json:
        if seed is not None:
            if type(seed) is not int or seed < 0:
                raise CommandError("Invalid command")
            self._games.seed(0, np.random.default_rng(seed))
        return self._start(self._games.new_games(), [])

    def _step(self, index: Any) -> Json:
        if index is None:
            raise CommandError("Missing actionIndex")
        try:
            action = scenario.check_action(index)
        except ValueError as error:
            raise CommandError(f"Invalid actionIndex: {error}") from None
        playing = self._playing()
        outcome = playing.play(action)
        return {"observation": playing.shown(), **_result(outcome)}

    def _set_state(self, state: Any) -> Json:
        if state is None:
            raise CommandError("Missing state data for setState command")
        try:
            board, owned = read_state(state)
            loaded = scenario.load(board)
        except ValueError as error:
            raise CommandError(f"Invalid state: {error}") from None
        self._games.put(0, loaded)
        return self._start(self._games.look(), owned)

    def _advice(self) -> Json:
        playing = self._playing()
        if self._choose is None:
            raise CommandError("There is no policy to ask: start with --policy or --run")
        if playing.is_over:
            raise CommandError("The game is over: reset begins the next one")
        if not playing.mask.any():
            raise CommandError("No action is valid: any step ends the game")
        turn = playing.board["turn"]  # not a count of steps: a board always gets the same advice
        chosen = self._choose(playing.observation, playing.mask, turn, self._games.states)
        action, probabilities, value = chosen
        return {"actionIndex": action, "probabilities": probabilities, "value": value}

    def _start(self, turn: Turn, owned: list[int]) -> Json:
        self._game = _Game(self._games, turn, owned)
        return {"observation": self._game.shown()}

    def _playing(self) -> _Game:
        if self._game is None:
            raise CommandError("There is no game yet: reset or setState begins one")
        return self._game


class _Game(RememberedGame):
    """A game whose UNDO reaches back further than the history of its state."""

    def __init__(self, games: HostedGames, turn: Turn, owned: list[int]) -> None:
        super().__init__(games, turn, owned)
        self._snapshots = Snapshots()

    def play(self, action: int) -> game.Outcome:
        before = self.state.history
        outcome = super().play(action)
        history = self._snapshots.follow(before, self.state.history)
        if history is not self.state.history:
            self.state = self.state.replace(history=history)
            self._games.put(0, self.state)
        return outcome


def _read_command(line: bytes) -> Json:
    try:
        command = json.loads(line.decode())
    except ValueError:
        raise CommandError("Invalid command") from None
    if not isinstance(command, dict) or not isinstance(command.get("action"), str):
        raise CommandError("Invalid command")
    return command


def _result(outcome: game.Outcome) -> Json:
    told = {
        "stage_complete": outcome.stage_completed,
        "death": outcome.died,
        "invalid_action": outcome.invalid,
    }
    parts = {name: _exactly(outcome.parts[part]) for name, part in _PARTS.items()}
    return {
        "reward": _exactly(outcome.reward),
        "done": bool(outcome.done),
        "info": {
            **{name: True for name, is_so in told.items() if is_so},
            "reward_breakdown": parts,
        },
    }


def _exactly(reward: Any) -> float:
    """Returns 0.04 rather than the nearest float32."""
    return round(float(reward) * UNITS) / UNITS
