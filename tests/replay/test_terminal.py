"""An episode in a terminal."""

from __future__ import annotations

import io
import os
import pickle
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.replay import terminal
from hackmatrix.replay.record import Episode
from tests.replay.short_game import short_game

ROOT = Path(__file__).parents[2]
SHOWN_CURSOR = "\x1b[?25h"
SHOW = """
import sys, pickle
from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.replay import terminal
terminal.show(pickle.load(open(sys.argv[1], "rb")))
"""


def test_the_likeliest_actions_come_first() -> None:
    assert "takes right   (right 75%, up 25%)" in terminal.text(short_game(), 0, colour=False)


def test_without_a_terminal_all_turns_are_printed(episode: Episode) -> None:
    out = io.StringIO()
    terminal.print_all(episode, out)
    heads = re.findall(r"turn (\d+) of", out.getvalue())
    assert heads == [str(turn) for turn in range(len(episode.frames))]
    assert "\x1b" not in out.getvalue()


def test_a_turn_shows_the_board_the_decision_and_the_reward(episode: Episode) -> None:
    text = terminal.text(episode, 0, colour=False)
    frame = episode.frames[0]
    assert frame.decision is not None
    assert f"takes {ACTION_NAMES[frame.decision.action]}" in text
    assert f"value {frame.decision.value:.2f}   reward {frame.reward:+.3f}" in text
    assert f"the end: {episode.end}" in terminal.text(episode, -1, colour=False)


@pytest.mark.parametrize("lines", [24, 40])
def test_a_turn_fits_on_the_terminal(episode: Episode, lines: int) -> None:
    frame = episode.frames[0]
    assert frame.decision is not None
    for colour in (False, True):
        screen = terminal.screen(episode, 0, os.terminal_size((80, lines)), colour)
        shown = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in screen.split("\n")]
        assert len(shown) <= lines
        assert max(map(len, shown)) <= 80
        assert shown[0].startswith(episode.title)
        assert shown[-1] == terminal.KEYS
        assert sum(line.startswith("|") for line in shown) == 12
        assert f"hp {frame.seen['playerHP']}/3" in screen
        assert f"value {frame.decision.value:.2f}" in screen
        assert (screen.count("+---------+") == 7 * 3) == (lines == 40)


def test_all_parts_of_a_reward_are_shown(episode: Episode) -> None:
    parts = {f"part_{number}": 0.25 for number in range(9)}
    frames = [replace(episode.frames[0], parts=parts), *episode.frames[1:]]
    for lines in (24, 50):
        screen = terminal.screen(
            Episode("a game", frames, "death"), 0, os.terminal_size((80, lines))
        )
        assert re.findall(r"part_\d", screen) == list(parts)
        shown = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in screen.split("\n")]
        assert max(map(len, shown)) <= 80


def test_a_terminal_too_narrow_for_the_board_shows_the_needed_width(
    episode: Episode,
) -> None:
    for columns in (62, 20):
        screen = terminal.screen(episode, 0, os.terminal_size((columns, 24)), colour=False)
        assert " ".join(screen.split()).startswith("The board needs 63 columns")
        assert max(map(len, screen.split("\n"))) <= columns
    assert "needs" not in terminal.screen(episode, 0, os.terminal_size((63, 24)))


class Watched:
    """A program that shows an episode at a terminal."""

    def __init__(self, file: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.program = subprocess.Popen(
            [sys.executable, "-c", SHOW, str(file)],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            process_group=0,
        )
        os.close(theirs)
        self._watchdog = threading.Timer(100, self.program.kill)
        self._watchdog.start()
        self._screen = ""
        self.turn_after(b"")

    def turn_after(self, key: bytes) -> int:
        """Presses a key; returns the turn on the next screen."""
        self.press(key)
        return int(re.findall(r"turn (\d+) of", self.until("quit"))[-1])

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def until(self, words: str) -> str:
        while words not in self._screen:
            self._screen += os.read(self._ours, 65536).decode(errors="replace")
        before, _, self._screen = self._screen.partition(words)
        return before

    def close(self) -> None:
        self._watchdog.cancel()
        self.program.kill()
        self.program.wait()
        os.close(self._ours)


@pytest.fixture
def watched(episode: Episode, tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / "episode").write_bytes(pickle.dumps(episode))
    watched = Watched(tmp_path / "episode")
    yield watched
    watched.close()


def test_keys_pause_step_and_rewind(watched: Watched) -> None:
    watched.turn_after(b"n")  # which also pauses
    assert watched.turn_after(b"r") == 0
    assert watched.turn_after(b"\x1b[C") == 1
    assert watched.turn_after(b"n") == 2
    assert watched.turn_after(b"\x1b[D") == 1
    assert watched.turn_after(b" ") == 1  # plays on
    assert watched.turn_after(b"") == 2
    watched.press(b"r")
    while watched.turn_after(b"") != 0:  # it may have played on meanwhile
        pass
    watched.program.send_signal(signal.SIGWINCH)  # as of a terminal that is resized
    assert watched.turn_after(b"") == 0
    watched.program.send_signal(signal.SIGTSTP)
    watched.until(SHOWN_CURSOR)
    os.waitpid(watched.program.pid, os.WUNTRACED)
    watched.program.send_signal(signal.SIGCONT)
    assert watched.turn_after(b"") == 0  # is shown again
    watched.press(b"q")
    assert watched.program.wait() == 0


def test_a_screen_that_ctrl_z_interrupts_is_painted_again(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the interrupted write has ended, as a write cannot begin within another."""
    painted: list[str] = []

    @contextmanager
    def at_once(paint: Callable[[], None], _: object) -> Iterator[None]:
        def write(words: str) -> None:
            painted.append(words)
            monkeypatch.setattr(terminal, "_write", amid)
            if len(painted) == 1:
                paint()  # as when the program is continued
            monkeypatch.setattr(terminal, "_write", write)

        def amid(_: str) -> None:
            raise RuntimeError("reentrant call")

        monkeypatch.setattr(terminal, "_write", write)
        paint()
        yield

    monkeypatch.setattr(terminal, "keys_at_once", at_once)
    monkeypatch.setattr(terminal, "key", lambda _: "q")
    terminal.show(episode)
    assert painted[0] == painted[1]
    assert len(painted) == 2
