"""An episode in a terminal."""

from __future__ import annotations

import io
import os
import pickle
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.replay import terminal
from hackmatrix.replay.record import Episode

ROOT = Path(__file__).parents[2]
SHOW = """
import sys, pickle
from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.replay import terminal
terminal.show(pickle.load(open(sys.argv[1], "rb")))
"""


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


def test_keys_pause_step_and_rewind(episode: Episode, tmp_path: Path) -> None:
    (tmp_path / "episode").write_bytes(pickle.dumps(episode))
    ours, theirs = pty.openpty()
    shown = subprocess.Popen(
        [sys.executable, "-c", SHOW, str(tmp_path / "episode")],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    watchdog = threading.Timer(100, shown.kill)
    watchdog.start()
    os.close(theirs)
    try:
        screen = ""

        def turn_after(key: bytes) -> int:
            """Of the next screen after the key."""
            nonlocal screen
            os.write(ours, key)
            before = len(re.findall(r"quit", screen))
            while len(re.findall(r"quit", screen)) <= before:
                screen += os.read(ours, 65536).decode(errors="replace")
            return int(re.findall(r"turn (\d+) of", screen)[-1])

        while "quit" not in screen:
            screen += os.read(ours, 65536).decode(errors="replace")
        turn_after(b"n")  # which also pauses
        assert turn_after(b"r") == 0
        assert turn_after(b"\x1b[C") == 1
        assert turn_after(b"n") == 2
        assert turn_after(b"\x1b[D") == 1
        assert turn_after(b" ") == 1  # plays on
        assert turn_after(b"") == 2
        os.write(ours, b"q")
        assert shown.wait() == 0
    finally:
        watchdog.cancel()
        shown.kill()
        shown.wait()
        os.close(ours)
