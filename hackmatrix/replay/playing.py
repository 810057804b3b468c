"""A game played by a person, one line of text per turn; a policy may give advice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix import game
from hackmatrix.envs.drawing import looks
from hackmatrix.envs.drawing import text as drawing
from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.envs.headless import Choose, Decision
from hackmatrix.envs.headless.remembered import RememberedGame
from hackmatrix.envs.hosted import HostedGames
from hackmatrix.game import scenario
from hackmatrix.game.programs import Program
from hackmatrix.game.state import FIRST_PROGRAM, STAGES
from hackmatrix.replay import happenings

HELP = """  arrow keys              move at once
  an action               its name, at once; or a unique prefix or its number, then enter
  save FILE, load FILE    the board, as a scenario file, then enter
  new, help, quit         at once
  backspace corrects what is typed; without a terminal, each line is a command"""
_WORDS = ("new", "help", "quit", "save", "load")
_LIKELIEST = 3


class Playing:
    """A game that a person plays. `say` prints text, and `is_low` returns whether the terminal has
    few lines.
    """

    def __init__(
        self,
        seed: int | None,
        say: Callable[[str], None],
        choose: Choose | None = None,
        colour: bool = True,
        is_low: Callable[[], bool] = lambda: False,
    ) -> None:
        self._games = HostedGames(1)
        self._games.seed(0, np.random.default_rng(seed))
        self._say, self._choose, self._colour, self._is_low = say, choose, colour, is_low
        self._game = self._new_game()

    def warm_up(self) -> None:
        """Compiles the policy, so that no board has to wait for its advice."""
        if self._choose:
            self._advice(self._choose)

    def converse(self, lines: Iterable[str]) -> None:
        """Obeys line by line, until "quit" or the end of the lines."""
        self._say(HELP)
        self._show()
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            word = word.lower()  # the rules write UP and UNDO
            if word == "quit":
                return
            self._obey(word, rest.strip())

    def at_once(self) -> set[str]:
        """Returns the words that are a whole command and not the beginning of another word."""
        words = {*self._valid(), *_WORDS}
        whole = words - {"save", "load"}
        return {each for each in whole if not any(word.startswith(each) for word in words - {each})}

    def _valid(self) -> list[str]:
        if self._game.is_over:
            return []
        return [ACTION_NAMES[each] for each in np.flatnonzero(self._game.mask)]

    def _obey(self, word: str, rest: str) -> None:
        try:
            match word:
                case "help" | "?":
                    self._say(HELP)
                case "new":
                    self._game = self._new_game()
                    self._show()
                case "save" | "load" if not rest:
                    self._say(f"{word} needs a file: type {word} FILE")
                case "save":
                    self._save(Path(os.path.expanduser(rest)))
                case "load":
                    self._load(Path(os.path.expanduser(rest)))
                    self._show()
                case _:
                    self._act(word)
        except OSError as error:
            self._say(f"{rest}: {error.strerror}")
        except ValueError as error:
            self._say(str(error))

    def _act(self, word: str) -> None:
        if self._game.is_over:
            raise ValueError("the game is over: type new, load FILE or quit")
        action = ACTION_NAMES.index(_only_one(word, self._valid()))
        before = self._game.board
        outcome = self._game.play(action)
        self._show()
        happened = happenings.tell(before, action, self._game.board, outcome, only_seen=True)
        self._tell(happened, outcome)

    def _tell(self, happened: list[str], outcome: game.Outcome) -> None:
        for line in [*happened, f"reward {float(outcome.reward):+.3f}"]:
            self._say(f"  {line}")
        if self._game.is_over:
            end = "victory" if outcome.won else "death"
            self._say(f"{end}: the game is over; type new, load FILE or quit")

    def _show(self) -> None:
        seen = self._game.shown()
        if self._is_low():
            board = drawing.board(seen, self._colour, is_ruled=False)
            self._say("\n".join([*board, "  ".join(looks.status(seen))]))
        else:
            self._say(drawing.text(seen, self._colour))
        if self._game.is_over:
            return
        valid = np.flatnonzero(self._game.mask)
        if not valid.size:
            self._say("no action is valid: this game cannot continue; type new, load FILE or quit")
            return
        self._say("valid: " + "  ".join(self._offer(int(each)) for each in valid))
        if self._choose:
            decision = self._advice(self._choose)
            ranked = sorted(valid, key=lambda action: -decision.probabilities[action])[:_LIKELIEST]
            shares = [f"{ACTION_NAMES[each]} {decision.probabilities[each]:.0%}" for each in ranked]
            self._say(f"the policy: {', '.join(shares)}; value {decision.value:.2f}")

    def _advice(self, choose: Choose) -> Decision:
        playing = self._game
        turn = playing.board["turn"]  # not a count of steps: a board always gets the same advice
        return choose(playing.observation, playing.mask, turn, self._games.states)

    def _offer(self, action: int) -> str:
        """Returns a valid action with its number and cost."""
        name = drawing.paint(ACTION_NAMES[action], looks.COLOURS["player"], self._colour)
        costs = ", ".join(
            drawing.paint(f"{cost} {means}", looks.COLOURS[means], self._colour)
            for means, cost in _costs(action).items()
        )
        return f"{name} ({action})" + (f" for {costs}" if costs else "")

    def _new_game(self) -> RememberedGame:
        return RememberedGame(self._games, self._games.new_games())

    def _save(self, file: Path) -> None:
        text = json.dumps(scenario.dump(self._game.state))
        file.write_text(text + "\n", encoding="utf-8")
        self._say(f"saved to {file}")

    def _load(self, file: Path) -> None:
        try:
            given: Any = json.loads(file.read_text(encoding="utf-8"))
            loaded = scenario.load(given)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{file} is not a scenario: {error}") from None
        self._games.put(0, loaded)
        self._game = RememberedGame(self._games, self._games.look())
        self._game.is_over = bool(loaded.player.hp == 0) or bool(loaded.stage > STAGES)
        if self._game.is_over:
            self._say("the loaded game is over; type new, load FILE or quit")


def _costs(action: int) -> dict[str, int]:
    """Returns the credits and energy that an action costs, each if not 0."""
    if action < FIRST_PROGRAM:
        return {}
    program = tuple(Program)[action - FIRST_PROGRAM]
    costs = {"credits": program.credits, "energy": program.energy}
    return {means: cost for means, cost in costs.items() if cost}


def _only_one(word: str, valid: list[str]) -> str:
    """Returns the valid action of this name, number or unique beginning."""
    if word.isdecimal() and int(word) < len(ACTION_NAMES):
        word = ACTION_NAMES[int(word)]
    found = [name for name in valid if name.startswith(word)]
    if word in found:
        return word
    if word and len(found) == 1:
        return found[0]
    if word in ACTION_NAMES:
        raise ValueError(f"{word} is not valid now")
    said = f"may mean {' or '.join(found)}" if word and found else "is not an action"
    raise ValueError(f"{word!r} {said}; type help for the commands")
