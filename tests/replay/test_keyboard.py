"""Keys and signals at a real terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hackmatrix import streams
from hackmatrix.replay import keyboard

ROOT = Path(__file__).parents[2]
# The command loop of launch.play without a game: it prints each command.
PROGRAM = """
import sys
from hackmatrix.replay import keyboard

def show(text):
    print(text, end="", flush=True)

with keyboard.keys_at_once():
    for command in keyboard.commands(keyboard.key, show, lambda: {"push", "quit"}):
        print(f"<{command}>", flush=True)
        if command == "quit":
            break
        if command == "fail":
            raise ValueError
"""


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=subprocess.DEVNULL,
            process_group=0,  # a group that Ctrl-Z can stop, as it is not orphaned
        )
        self._watchdog = threading.Timer(60, self.program.kill)
        self._watchdog.start()
        self._screen = ""
        self.until("> ")

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def until(self, words: str) -> str:
        """What is on the screen up to these words."""
        while words not in self._screen:
            self._screen += os.read(self._ours, 65536).decode(errors="replace")
        before, _, self._screen = self._screen.partition(words)
        return before + words

    def send(self, number: signal.Signals) -> None:
        self.program.send_signal(number)

    def is_stopped(self) -> bool:
        """Waits until the program is stopped or has ended; returns whether it is stopped."""
        return os.WIFSTOPPED(os.waitpid(self.program.pid, os.WUNTRACED)[1])

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.theirs) == self.before

    def close(self) -> None:
        self._watchdog.cancel()
        self.program.kill()
        self.program.wait()
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_arrow_keys_move_at_once_and_are_not_echoed(terminal: Terminal) -> None:
    for keys, move in (
        ("\x1b[A", "up"),
        ("\x1b[B", "down"),
        ("\x1bOC", "right"),
        ("\x1b[D", "left"),
    ):
        terminal.press(keys)
        shown = terminal.until(f"<{move}>")
        assert "[A" not in shown.replace("\x1b[K", "")
        assert "^[" not in shown


def test_whole_words_need_no_enter_and_mistyped_ones_can_be_corrected(terminal: Terminal) -> None:
    terminal.press("push")
    terminal.until("<push>")
    terminal.press("pxz\x7f\x7fush")
    terminal.until("<push>")
    terminal.press("sii\x7fph\n")
    terminal.until("<siph>")
    terminal.press("nonsense\x15save bräd.json\n")  # Ctrl-U forgets what was typed
    assert "<nonsense" not in terminal.until("<save bräd.json>")


def test_a_word_and_its_enter_are_one_command(terminal: Terminal) -> None:
    terminal.press("push\npush\nquit")
    shown = terminal.until("<quit>")
    assert re.findall("<.*>", shown) == ["<push>", "<push>", "<quit>"]


@pytest.mark.parametrize(
    ("keys", "code"), [("quit", 0), ("\x04", 0), ("fail\n", 1), ("\x03", -signal.SIGINT)]
)
def test_the_terminal_is_restored_at_the_end(terminal: Terminal, keys: str, code: int) -> None:
    assert not terminal.is_as_before()
    if keys == "\x03":
        terminal.program.send_signal(signal.SIGINT)  # as a controlling terminal would send
    else:
        terminal.press(keys)
    assert terminal.program.wait(30) == code
    assert terminal.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_the_terminal_is_restored_when_a_signal_ends_the_program(
    terminal: Terminal, number: signal.Signals
) -> None:
    terminal.program.send_signal(number)
    assert terminal.program.wait(30) == 128 + number
    assert terminal.is_as_before()


def test_the_terminal_is_restored_before_a_signal_unwinds_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second signal could end the program before its context managers do."""
    ours, theirs = pty.openpty()
    with open(ours, "rb"), open(theirs) as keys:
        monkeypatch.setattr(sys, "stdin", keys)
        before = termios.tcgetattr(theirs)
        with keyboard.keys_at_once():
            assert termios.tcgetattr(theirs) != before
            with pytest.raises(SystemExit):
                signal.raise_signal(signal.SIGTERM)
            assert termios.tcgetattr(theirs) == before


def test_an_ignored_signal_is_ignored_while_keys_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example under nohup, where SIGHUP ends no program."""
    ours, theirs = pty.openpty()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with open(ours, "rb"), open(theirs) as keys:
        monkeypatch.setattr(sys, "stdin", keys)
        with keyboard.keys_at_once():
            signal.raise_signal(signal.SIGHUP)


def test_the_terminal_is_restored_while_ctrl_z_has_stopped_the_program(terminal: Terminal) -> None:
    terminal.send(signal.SIGTSTP)
    assert terminal.is_stopped()
    assert terminal.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_program_that_is_continued_reads_keys_again(
    terminal: Terminal, number: signal.Signals
) -> None:
    for _ in range(2):
        terminal.send(number)
        assert terminal.is_stopped()
        termios.tcsetattr(terminal.theirs, termios.TCSANOW, terminal.before)  # as shells do
        terminal.send(signal.SIGCONT)
        for _ in range(1000):
            if not terminal.is_as_before():
                break
            time.sleep(0.01)
        assert not terminal.is_as_before()
        terminal.press("\x1b[A")
        terminal.until("<up>")


def test_the_end_of_a_line_that_is_longer_than_the_terminal_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    pressed = iter([*"save a/long/way/down.json", keyboard.END])
    shown: list[str] = []
    list(keyboard.commands(lambda: next(pressed), shown.append, set))
    *_, last, _ = (each.removeprefix("\r\x1b[K") for each in shown)
    assert last == "> ong/way/down.json"
    assert max(len(each.removeprefix("\r\x1b[K")) for each in shown) < 20


@pytest.mark.parametrize(
    ("isatty", "term", "no_color", "wanted"),
    [
        (True, "xterm", None, True),
        (True, "xterm", "", True),
        (True, "xterm", "1", False),
        (True, "dumb", None, False),
        (False, "xterm", None, False),
    ],
)
def test_colours_are_used_on_terminals_that_have_them_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, isatty: bool, term: str, no_color: str | None, wanted: bool
) -> None:
    class Out:
        def isatty(self) -> bool:
            return isatty

    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    out: Any = Out()
    assert streams.has_colours(out) == wanted


def test_an_arrow_drops_the_word_before_it() -> None:
    pressed = iter(["s", "a", "up", keyboard.END])
    commands = keyboard.commands(lambda: next(pressed), lambda _: None, set)
    assert list(commands) == ["up"]


def test_a_whole_word_in_capitals_needs_no_enter_either() -> None:
    pressed = iter([*"PUSH", keyboard.END])
    commands = keyboard.commands(lambda: next(pressed), lambda _: None, lambda: {"push"})
    assert list(commands) == ["PUSH"]
