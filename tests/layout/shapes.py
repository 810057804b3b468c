"""Checks modules and folders from outside: their length, number, names, and foreign text."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.layout.files import PROGRAMS, TESTS, modules

LONGEST_MODULE = 300
MOST_MODULES = 12
# The rules have many sections, each with a module and tests of its own.
LARGE_FOLDERS = {"hackmatrix/game", "tests/game"}
VAGUE_NAMES = {"utils", "helpers", "common", "misc"}

# Joined from pieces, so that this file does not itself contain what it looks for.
FOREIGN_TEXT = re.compile(
    "|".join(
        [
            r"(?<![\w.\-])/" + "(work|root|home)/",
            r"\.\./" + "shared",
            "py" + r"pi\.org",
            "python" + r"hosted\.org",
            r"registry\." + r"npmjs\.",
            r"(deb|security)\." + r"debian\.org",
            r"proxy\." + r"golang\.org",
            "--(extra-)?" + "index-url",
        ]
    )
)


def long_modules(root: Path) -> list[str]:
    paths = modules(root, *PROGRAMS, TESTS)
    lengths = {path: len(path.read_text().splitlines()) for path in paths}
    return [
        f"{path.relative_to(root)} has {length} lines"
        for path, length in lengths.items()
        if length > LONGEST_MODULE
    ]


def large_folders(root: Path) -> list[str]:
    counts = Counter(
        str(path.parent.relative_to(root))
        for path in modules(root, *PROGRAMS, TESTS)
        if path.name != "__init__.py"
    )
    return [
        f"{folder} has {count} modules"
        for folder, count in sorted(counts.items())
        if count > MOST_MODULES and folder not in LARGE_FOLDERS
    ]


def vague_names(root: Path) -> list[str]:
    paths = modules(root, *PROGRAMS, TESTS)
    names = {path.relative_to(root).with_suffix("") for path in paths}
    return [f"{name} says nothing" for name in sorted(names) if VAGUE_NAMES & set(name.parts)]


def namesakes(root: Path) -> list[str]:
    """Finds tests of the same name in several folders: pytest knows them by that name alone."""
    counts = Counter(path.name for path in modules(root, TESTS) if path.name.startswith("test_"))
    return [f"{name} is in {count} folders" for name, count in counts.items() if count > 1]


def foreign_text(root: Path) -> list[str]:
    """Finds lines that name a place which only some machines have."""
    folders = [root / name for name in (*PROGRAMS, TESTS, "scripts", "docs", ".ci")]
    files = [path for folder in folders for path in folder.rglob("*")]
    files += [*root.glob("*.toml"), *root.glob("*.txt"), *root.glob("*.md"), root / "Makefile"]
    return [
        f"{path.relative_to(root)}:{number} {line.strip()}"
        for path in sorted(files)
        if path.is_file() and path.suffix in {"", ".py", ".sh", ".toml", ".txt", ".md"}
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if FOREIGN_TEXT.search(line)
    ]
