"""How much code a compiler makes, from what it writes down: that for TPUs its schedules, that for
GPUs the assembly (PTX) of their kernels.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# libtpu reads this once, when it is loaded.
_ARGUMENTS = "LIBTPU_INIT_ARGS"
_BUNDLES = re.compile(r"total scheduled bundles:\s+(\d+)")
_PTX = re.compile(r"^\s+(?:@!?%p\d+\s+)?[a-z][^;]*;", re.MULTILINE)


@dataclass(frozen=True)
class Schedules:
    """The folder to which each compilation for devices of a platform is written."""

    folder: Path
    platform: str

    @property
    def options(self) -> dict[str, str | bool]:
        """The options to compile with, so that schedules are written down."""
        return {"xla_dump_to": str(self.folder)} if self.platform == "gpu" else {}

    def instructions(self) -> int:
        """How many all kernels have that were compiled since the last call, loops once. On a GPU
        they are those of a thread; on a TPU bundles, each of which does as many things at once as
        the chip has units.
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
def written(platform: str) -> Iterator[Schedules]:
    """From now on the compiler writes them down. libtpu must not be loaded yet."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            f"--xla_jf_dump_to={folder}",
            "--xla_jf_dump_llo_text=true",
            "--xla_jf_dump_llo_pass_label_regex=.*final_bundles",
        ]
        os.environ[_ARGUMENTS] = " ".join([os.environ.get(_ARGUMENTS, ""), *wanted])
        yield Schedules(Path(folder), platform)
