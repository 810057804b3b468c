"""An episode in a terminal: it plays by itself, and keys pause, step and rewind it."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from hackmatrix.envs.drawing import text as drawing
from hackmatrix.envs.drawing.looks import status
from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.replay.keyboard import END, key, keys_at_once
from hackmatrix.replay.record import Episode, Frame

KEYS = "space pause   → or n next   ← or b back   home or r rewind   q quit"
_SECONDS_A_TURN = 0.4
_LIKELIEST = 5
_CLEAR = "\x1b[H\x1b[2J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_STEPS = {"n": 1, "right": 1, "b": -1, "left": -1}
_REWIND, _ENDS = ("r", "home"), ("q", END)


def text(episode: Episode, turn: int, colour: bool = True) -> str:
    """Returns a turn of an episode: the board, the decision and what happened."""
    frame = episode.frames[turn]
    board = drawing.text(frame.seen, colour).rstrip("\n")
    return "\n".join([_head(episode, turn), board, "", *_done(episode, frame)]) + "\n"


def screen(episode: Episode, turn: int, size: os.terminal_size, colour: bool = True) -> str:
    """Returns a turn and the keys, for a terminal of this size. With too few lines, the board is
    drawn without rules and the last of what happened is left out.
    """
    frame, room = episode.frames[turn], size.lines - 1
    keys = KEYS[: size.columns]
    needed = max(map(len, drawing.board(frame.seen, colour=False)))
    if size.columns < needed:
        said = f"The board needs {needed} columns: make the terminal wider."
        return "\n".join([*textwrap.wrap(said, size.columns)[:room], keys])
    lines = _fitting([*text(episode, turn, colour).splitlines(), ""], size.columns)
    if len(lines) > room:
        board = drawing.board(frame.seen, colour, is_ruled=False)
        rest = ["  ".join(status(frame.seen)), *_done(episode, frame)]
        lines = _fitting([_head(episode, turn), *board, *rest], size.columns)[:room]
    return "\n".join([*lines, keys])


def _fitting(lines: Iterable[str], columns: int) -> list[str]:
    """Wraps longer lines, except rows of the board, which are coloured."""
    fitting = []
    for line in lines:
        if len(line) <= columns or "\x1b" in line:
            fitting.append(line)
        else:
            fitting += textwrap.wrap(line, columns, subsequent_indent="    ")
    return fitting


def print_all(episode: Episode, out: TextIO) -> None:
    """Prints all turns, for output where nobody can press keys."""
    for turn in range(len(episode.frames)):
        out.write(text(episode, turn, colour=False) + "\n")


def show(episode: Episode, colour: bool = True) -> None:
    """Plays an episode in the terminal, until the person quits."""
    turn, last, is_paused = 0, len(episode.frames) - 1, False
    is_amid_a_write = is_stale = False

    def paint() -> None:
        nonlocal is_amid_a_write, is_stale
        is_stale = True
        if is_amid_a_write:  # Ctrl-Z interrupted it; it goes on first, and repaints
            return
        while is_stale:
            is_amid_a_write, is_stale = True, False
            shown = screen(episode, turn, shutil.get_terminal_size(), colour)
            _write(_HIDE_CURSOR + _CLEAR + shown)
            is_amid_a_write = False

    def leave() -> None:  # Ctrl-Z may come amid a write of sys.stdout, in which no other can begin
        os.write(sys.stdout.fileno(), f"{_SHOW_CURSOR}\n".encode())

    with keys_at_once(paint, leave), suppress(KeyboardInterrupt):
        while (pressed := key(None if is_paused or turn == last else _SECONDS_A_TURN)) not in _ENDS:
            if pressed is None:
                turn += 1
            else:
                is_paused = not is_paused if pressed == " " else True
                step = -turn if pressed in _REWIND else _STEPS.get(pressed, 0)
                turn = min(max(turn + step, 0), last)
            paint()


def _write(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()


def _head(episode: Episode, turn: int) -> str:
    return f"{episode.title}   turn {turn} of {len(episode.frames) - 1}"


def _done(episode: Episode, frame: Frame) -> list[str]:
    decision = frame.decision
    if decision is None:
        return [f"the end: {episode.end}; return {episode.total:.2f}"]
    ranked = sorted(frame.valid, key=lambda action: -decision.probabilities[action])
    shares = [f"{ACTION_NAMES[each]} {decision.probabilities[each]:.0%}" for each in ranked]
    parts = "  ".join(f"{name} {part:+g}" for name, part in frame.parts.items())
    return [
        f"takes {ACTION_NAMES[decision.action]}   ({', '.join(shares[:_LIKELIEST])})",
        f"value {decision.value:.2f}   reward {frame.reward:+.3f}   {parts}",
        *(f"  {line}" for line in frame.happened),
    ]
