"""An episode in a terminal: it plays by itself, and keys pause, step and rewind it."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from hackmatrix.envs.drawing import text as drawing
from hackmatrix.replay.record import ACTION_NAMES, Episode, Frame

KEYS = "space pause   → or n next   ← or b back   home or r rewind   q quit"
_SECONDS_A_TURN = 0.4
_LIKELIEST = 5
_CLEAR = "\x1b[H\x1b[2J"
_NAMES = {"\x1b[C": "n", "\x1b[D": "b", "\x1b[H": "r", "\x1b[1~": "r", "\x03": "q", "": "q"}


def text(episode: Episode, turn: int, colour: bool = True) -> str:
    """A turn of an episode: the board, and what was decided and done."""
    frame = episode.frames[turn]
    head = f"{episode.title}   turn {turn} of {len(episode.frames) - 1}"
    lines = [head, drawing.text(frame.seen, colour).rstrip("\n"), "", *_done(episode, frame)]
    return "\n".join(lines) + "\n"


def print_all(episode: Episode, out: TextIO) -> None:
    """Turn after turn, where nobody can press keys."""
    for turn in range(len(episode.frames)):
        out.write(text(episode, turn, colour=False) + "\n")


def show(episode: Episode) -> None:
    """Until the person has had enough."""
    turn, last, is_paused = 0, len(episode.frames) - 1, False
    with _keys_at_once():
        while True:
            screen = text(episode, turn) + "\n" + KEYS
            sys.stdout.write(_CLEAR + screen.replace("\n", "\r\n"))
            sys.stdout.flush()
            key = _key(None if is_paused or turn == last else _SECONDS_A_TURN)
            if key == "q":
                break
            if key is None:
                turn += 1
                continue
            is_paused = not is_paused if key == " " else True
            step = {"n": 1, "b": -1, "r": -turn}.get(key, 0)
            turn = min(max(turn + step, 0), last)
    sys.stdout.write("\n")


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


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Keys arrive without the enter key, and are not shown; the cursor is hidden."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal)
        sys.stdout.write("\x1b[?25l")
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h")
        sys.stdout.flush()


def _key(seconds: float | None) -> str | None:
    """The key that was pressed, None if none was in that time."""
    terminal = sys.stdin.fileno()
    if not select.select([terminal], [], [], seconds)[0]:
        return None
    pressed = os.read(terminal, 1).decode(errors="replace")
    if pressed == "\x1b" and select.select([terminal], [], [], 0.05)[0]:
        pressed += os.read(terminal, 3).decode(errors="replace")
    return _NAMES.get(pressed, pressed)
