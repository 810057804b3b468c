"""How much code the compiler for TPUs makes, from the schedules that it writes down."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# libtpu reads this once, when it is loaded.
_ARGUMENTS = "LIBTPU_INIT_ARGS"
_TOTAL = re.compile(r"total scheduled bundles:\s+(\d+)")


class Schedules:
    """The folder to which the schedules of each compilation are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def bundles(self) -> int:
        """The instructions of all kernels compiled since the last call, loops once. Each does as
        many things at once as the chip has units.
        """
        total = 0
        for file in self._folder.iterdir():
            found = _TOTAL.search(file.read_text(errors="replace"))
            total += int(found[1]) if found else 0
            file.unlink()
        return total


@contextmanager
def written() -> Iterator[Schedules]:
    """From now on the compiler writes them down. libtpu must not be loaded yet."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            f"--xla_jf_dump_to={folder}",
            "--xla_jf_dump_llo_text=true",
            "--xla_jf_dump_llo_pass_label_regex=.*final_bundles",
        ]
        os.environ[_ARGUMENTS] = " ".join([os.environ.get(_ARGUMENTS, ""), *wanted])
        yield Schedules(Path(folder))
