"""Supervises a training process from its first line to its end.

Signals ask it to stop, a watchdog ends it if it hangs, and a file tells the supervisor that starts
it again which run it was. Nothing here needs JAX, whose import takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hackmatrix.train.guards.signals import Signals
from hackmatrix.train.guards.watchdog import Watchdog

NOTES = "SUPERVISE_NOTES"  # the variable in which scripts/supervise.sh passes the file's name


@dataclass(frozen=True)
class Supervision:
    """The signals and the watchdog of a process, inactive until `start`. `notes` is the file in
    which the process's supervisor, if any, finds the run; `tell` is called with the run whenever it
    is noted.
    """

    signals: Signals = field(default_factory=Signals)
    watchdog: Watchdog = field(default_factory=Watchdog)
    notes: Path | None = None
    tell: Callable[[str], None] = lambda run: None

    def start(self) -> None:
        self.signals.start()
        self.watchdog.start()

    def note(self, run: str, step: int | None = None) -> None:
        """Notes that the process trains this run, and from which step, if that is known already."""
        self.tell(run)
        if self.notes:
            with suppress(OSError):  # at worst a restart begins another run, or is counted wrongly
                self.notes.write_text(f"{run}\n{'' if step is None else step}\n")

    def forget(self) -> None:
        """Clears the note, because the run no longer exists."""
        if self.notes:
            with suppress(OSError):
                self.notes.write_text("")


def of_environment(variables: Mapping[str, str] = os.environ) -> Supervision:
    """Returns the supervision that the environment variables ask for."""
    return Supervision(notes=Path(variables[NOTES]) if variables.get(NOTES) else None)
