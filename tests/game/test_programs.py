"""A program is added by a row of the table and a function, with its condition, and nothing else.

The tests add one in a copy of the package, as a contributor would, and play the copy in a new
process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "hackmatrix"
PLAY = Path(__file__).with_name("new_program.py")

ROW = '    {name} = "loan", 0, 3, 9, switches.loan, switches.is_poor\n'
FUNCTION = '''

def loan(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Twenty credits more."""
    player = state.player
    return state.replace(player=player.replace(credits=player.credits + 20 * active)), NO_KILLS


def is_poor(now: Situation) -> Array:
    return now.state.player.credits < 20
'''


def played(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Plays a copy of the package with rows of these names at the end of the game's table."""
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    programs = copy / "game" / "programs"
    table, functions = programs / "table.py", programs / "switches.py"
    rows, rest = table.read_text().split("\n    def __new__", maxsplit=1)
    new_rows = "".join(ROW.format(name=name) for name in names)
    table.write_text(f"{rows}{new_rows}\n    def __new__{rest}")
    functions.write_text(functions.read_text() + FUNCTION)
    shutil.copy(PLAY, folder)
    return subprocess.run(
        [sys.executable, PLAY.name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_a_program_is_added_by_a_row_and_a_function(tmp_path: Path) -> None:
    play = played(tmp_path, "LOAN")
    assert play.returncode == 0, play.stderr


def test_a_program_that_no_snapshot_has_room_for_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    play = played(tmp_path, "LOAN", "BOND", "DEBT")
    assert play.returncode != 0
    assert "26 programs, but a snapshot has room for 25" in play.stderr
