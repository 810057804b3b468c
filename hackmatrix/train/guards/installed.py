"""Compares, without JAX, the installed packages with those a run needs and was tested with."""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from hackmatrix.compile_cache.sources import version

INSTALL = "pip install -e . -c constraints.txt"
_NAME = re.compile(r"[\w.\-]+")
_PIN = re.compile(r"([\w.\-]+)==(\S+)")


@dataclass(frozen=True)
class Finding:
    """The subject of a check, its result in words, and whether training is possible with it."""

    about: str
    text: str
    is_good: bool = True


def examine(constraints: Path) -> Iterator[Finding]:
    """Yields all findings about this installation."""
    yield Finding("python", f"{platform.python_version()} on {socket.gethostname()}")
    yield packages()
    yield pins(constraints)


def line(finding: Finding) -> str:
    return f"{'ok ' if finding.is_good else 'BAD'}  {finding.about:<9} {finding.text}"


def packages() -> Finding:
    """Checks that all required packages are installed."""
    try:
        required = metadata.requires("hackmatrix") or []
    except metadata.PackageNotFoundError:
        return Finding(
            "packages", "hackmatrix is not installed, so its dependencies are not checked"
        )
    names = [each[0] for line in required if "extra ==" not in line and (each := _NAME.match(line))]
    if missing := [name for name in names if not version(name)]:
        text = f"{', '.join(missing)}: not installed, so no run can start: {INSTALL}"
        return Finding("packages", text, False)
    return Finding("packages", f"all {len(names)} required packages are installed")


def pins(constraints: Path) -> Finding:
    """Compares installed versions with the tested ones."""
    if not constraints.is_file():
        return Finding("pins", f"there is no {constraints}, so versions are not checked")
    pinned = dict(_PIN.findall(constraints.read_text()))
    installed = {name: _installed(name) for name in pinned}
    others = [
        f"{name} {installed[name]} (tested: {tested})"
        for name, tested in pinned.items()
        if installed[name] not in (None, tested)
    ]
    count = sum(each is not None for each in installed.values())
    if others:
        return Finding("pins", f"{', '.join(others)}: install with -c {constraints.name}", False)
    return Finding("pins", f"{count} packages installed, all as in {constraints.name}")


def _installed(name: str) -> str | None:
    """Returns the version of a package without its build tag, such as +cpu; None if missing."""
    found = version(name)
    return found and found.partition("+")[0]
