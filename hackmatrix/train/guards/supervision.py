"""How a process that trains is supervised, from its first line to its end.

Signals ask it to stop, a watchdog ends it when it hangs, and whoever starts it again learns which
run it was. Nothing here needs JAX, whose import takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hackmatrix.train.guards.signals import Signals
from hackmatrix.train.guards.watchdog import Watchdog

NOTES = "SUPERVISE_NOTES"  # scripts/supervise.sh names a file by it


@dataclass(frozen=True)
class Supervision:
    """Unless it is started, signals do what they did before and no watchdog waits. `notes` is the
    file in which the supervisor of this process, if it has one, finds its run; `tell` is told the
    same place, each time that it is noted.
    """

    signals: Signals = field(default_factory=Signals)
    watchdog: Watchdog = field(default_factory=Watchdog)
    notes: Path | None = None
    tell: Callable[[str], None] = lambda run: None

    def start(self) -> None:
        self.signals.start()
        self.watchdog.start()

    def note(self, run: str, step: int | None = None) -> None:
        """The process trains this run, and goes on from this step if that is known already."""
        self.tell(run)
        if self.notes:
            with suppress(OSError):  # it would only begin another run, or count otherwise
                self.notes.write_text(f"{run}\n{'' if step is None else step}\n")

    def forget(self) -> None:
        """There is no such run any more."""
        if self.notes:
            with suppress(OSError):
                self.notes.write_text("")


def of_environment(variables: Mapping[str, str] = os.environ) -> Supervision:
    """The supervision that whoever has started this process wants."""
    return Supervision(notes=Path(variables[NOTES]) if variables.get(NOTES) else None)
