"""Keys of a terminal, each as soon as it is pressed, and the commands that they make up."""

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
_REST_OF_A_KEY = 0.05  # seconds within which a key that sends several characters has sent them
_A_WAIT = 1.0  # seconds: a Ctrl-C in the instant before the system waits is seen when that ends


@contextmanager
def keys_at_once(
    come: Callable[[], None] = lambda: None, go: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Within it keys arrive without the enter key and are not shown; Ctrl-C interrupts as ever.
    Whatever happens, the terminal is afterwards as it was, and while Ctrl-Z has stopped the
    program. `come` is called whenever the terminal becomes ours, `go` whenever it no longer is,
    perhaps amid a write.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    is_over = False

    def take(*_: object) -> None:
        if is_over:  # Ctrl-Z came amid the end
            return
        with suppress(termios.error):  # it may be gone
            tty.setcbreak(terminal, termios.TCSADRAIN)
        come()

    def give_back() -> None:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        go()

    def stand_still(number: int, _: object) -> None:
        give_back()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # until it is continued
        signal.signal(number, stand_still)
        take()

    ends = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT), _unwind)
    with _heeding({**ends, signal.SIGTSTP: stand_still, signal.SIGCONT: take}):
        try:
            termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before it listened
            take()
            yield
        finally:
            is_over = True
            give_back()


@contextmanager
def _heeding(handlers: Mapping[signal.Signals, Callable[[int, Any], None]]) -> Iterator[None]:
    """Within it these signals are handled so, unless somebody else heeds or ignores them."""
    heard = [each for each in handlers if signal.getsignal(each) == signal.SIG_DFL]
    for each in heard:
        signal.signal(each, handlers[each])
    try:
        yield
    finally:
        for each in heard:
            signal.signal(each, signal.SIG_DFL)


def _unwind(number: int, _: object) -> None:
    """Ends the program as an exception does."""
    raise SystemExit(128 + number)


def key(seconds: float | None = None) -> str | None:
    """The next key: a character, or the name of one that has none. None if none was pressed in that
    time. A key that is not known has the name "".
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
    """What is said with keys, a command at a time. Arrows are commands, and words that are among
    `at_once` as soon as they are typed; enter ends any other, backspace corrects it.
    """
    typed = ""
    while True:
        shown = typed[-max(shutil.get_terminal_size().columns - len("> ") - 1, 1) :]
        show(f"\r\x1b[K> {shown}")  # of a long line its end
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
    """One, which may be several bytes long; "" at the end of input."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with suppress(OSError):  # which is how a terminal says that it is gone
        while byte := os.read(terminal, 1):
            if character := decoder.decode(byte):
                return character
    return ""
