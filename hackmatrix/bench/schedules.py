"""Counts the instructions that a compiler generates, from its dumps: schedules of programs for
TPUs, assembly (PTX) of kernels for GPUs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hackmatrix.bench.scaling.subprocesses import environment

# libtpu reads this once, when it is loaded.
_ARGUMENTS = "LIBTPU_INIT_ARGS"
_BUNDLES = re.compile(r"total scheduled bundles:\s+(\d+)")
_PTX = re.compile(r"^\s+(?:@!?%p\d+\s+)?[a-z][^;]*;", re.MULTILINE)


@dataclass(frozen=True)
class Schedules:
    """The folder to which the compiler for a platform dumps each compilation."""

    folder: Path
    platform: str

    @property
    def options(self) -> dict[str, str | bool]:
        """The compile options with which the dumps are written."""
        return {"xla_dump_to": str(self.folder)} if self.platform == "gpu" else {}

    def instructions(self) -> int:
        """Counts the instructions of all kernels compiled since the last call; a loop counts once.
        On a GPU they are the instructions of one thread; on a TPU they are bundles, each of which
        does as many things at once as the chip has units.
        """
        total = 0
        for file in self.folder.iterdir():
            text = file.read_text(errors="replace")
            if self.platform == "gpu":
                total += len(_PTX.findall(text)) if file.suffix == ".ptx" else 0
            elif found := _BUNDLES.search(text):
                total += int(found[1])
            file.unlink()
        return total


@contextmanager
def dumped(platform: str) -> Iterator[Schedules]:
    """Makes the compiler dump its code inside the block. libtpu must not be loaded yet."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            f"--xla_jf_dump_to={folder}",
            "--xla_jf_dump_llo_text=true",
            "--xla_jf_dump_llo_pass_label_regex=.*final_bundles",
        ]
        with environment(**{_ARGUMENTS: " ".join([os.environ.get(_ARGUMENTS, ""), *wanted])}):
            yield Schedules(Path(folder), platform)
