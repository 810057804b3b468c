"""Reads keys from a terminal, each as soon as it is pressed, and commands made of them."""

from __future__ import annotations

import codecs
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

END = "end of input"
_NAMES = {
    "": END, "\x04": END, "\n": "enter", "\r": "enter", "\x7f": "backspace", "\b": "backspace",
    "\x15": "escape", "\x1b": "escape",
    **{f"\x1b{kind}{letter}": name for kind in "[O" for letter, name in zip(
        "ABCDH", ("up", "down", "right", "left", "home"), strict=True)},
    "\x1b[1~": "home",
}  # fmt: skip
_ARROWS = ("up", "down", "left", "right")
_REST_OF_A_KEY = 0.05  # seconds to wait for the rest of a key that sends several characters
_A_WAIT = 1.0  # seconds; a Ctrl-C just before `select` waits is noticed only when it returns


@contextmanager
def keys_at_once(
    come: Callable[[], None] = lambda: None, go: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """A context in which keys arrive without enter and are not echoed; Ctrl-C still interrupts. The
    terminal is restored on every exit, and while Ctrl-Z has stopped the program. `come` is called
    whenever the terminal has been taken or resized, `go` whenever it has been given back, perhaps
    in the middle of a write.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    is_over = False

    def take(*_: object) -> None:
        if is_over:  # Ctrl-Z came during the exit
            return
        with suppress(termios.error):  # the terminal may be gone
            tty.setcbreak(terminal, termios.TCSADRAIN)
        come()

    def give_back() -> None:
        with suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
            go()

    def stand_still(number: int, _: object) -> None:
        give_back()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # returns when the program is continued
        signal.signal(number, stand_still)
        take()

    def end(number: int, _: object) -> None:
        give_back()  # a second signal may come before `finally` does it
        raise SystemExit(128 + number)

    ends = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT), end)
    takes = dict.fromkeys((signal.SIGCONT, signal.SIGWINCH), take)
    with _handling({**ends, **takes, signal.SIGTSTP: stand_still}):
        try:
            termios.tcflush(terminal, termios.TCIFLUSH)  # drops what was typed before
            take()
            yield
        finally:
            is_over = True
            give_back()


@contextmanager
def _handling(
    handlers: Mapping[signal.Signals, Callable[[int, Any], None]],
) -> Iterator[None]:
    """A context with these signal handlers, except where a signal is handled or ignored already."""
    heard = [each for each in handlers if signal.getsignal(each) == signal.SIG_DFL]
    for each in heard:
        signal.signal(each, handlers[each])
    try:
        yield
    finally:
        for each in heard:
            signal.signal(each, signal.SIG_DFL)


def key(seconds: float | None = None) -> str | None:
    """Returns the next key: a character, or the name of a key that has none ("" if unknown); or
    None if no key was pressed in that time.
    """
    terminal = sys.stdin.fileno()
    while not select.select([terminal], [], [], _A_WAIT if seconds is None else seconds)[0]:
        if seconds is not None:
            return None
    pressed = _character(terminal)
    if pressed == "\x1b" and select.select([terminal], [], [], _REST_OF_A_KEY)[0]:
        pressed += _character(terminal)
        if pressed[1:] in ("[", "O"):
            pressed += (last := _character(terminal))
            while last and not "@" <= last <= "~":
                pressed += (last := _character(terminal))
    if len(pressed) == 1 and pressed.isprintable():
        return pressed
    return _NAMES.get(pressed, "")


def commands(
    next_key: Callable[[], str | None],
    show: Callable[[str], None],
    at_once: Callable[[], Collection[str]],
) -> Iterator[str]:
    """Yields the commands that are typed. Arrows are commands, and so are the words in `at_once()`
    as soon as they are typed; enter ends any other, and backspace corrects it.
    """
    typed = ""
    while True:
        shown = typed[-max(shutil.get_terminal_size().columns - len("> ") - 1, 1) :]
        show(f"\r\x1b[K> {shown}")  # the end of a long line
        pressed = next_key() or ""
        if pressed == END:
            show("\n")
            return
        if pressed in _ARROWS:
            typed = pressed
        elif pressed == "backspace":
            typed = typed[:-1]
        elif pressed == "escape":
            typed = ""
        elif len(pressed) == 1:
            typed += pressed
        if typed and (pressed in ("enter", *_ARROWS) or typed.lower() in at_once()):
            show(f"\r\x1b[K> {typed}\n")
            yield typed
            typed = ""


def _character(terminal: int) -> str:
    """Reads one character, which may be several bytes; "" at the end of input."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with suppress(OSError):  # raised when the terminal is gone
        while byte := os.read(terminal, 1):
            if character := decoder.decode(byte):
                return character
    return ""
