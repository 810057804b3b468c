"""The rooms (packages and top modules) of the project, and which of them may import which."""

from __future__ import annotations

import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.layout.files import PROGRAMS, TESTS, dotted, imported, modules, sources

_ERRORS = {"hackmatrix.errors", "hackmatrix.plugins"}
_GAME = {"hackmatrix.game"}
_ENVS = _GAME | _ERRORS | {"hackmatrix.compile_cache", "hackmatrix.envs"}
_LEARNING = _ENVS | {"hackmatrix.parallel", "hackmatrix.networks", "hackmatrix.rl"}
_TRAIN = _LEARNING | {
    "hackmatrix.estimates", "hackmatrix.ppo", "hackmatrix.search", "hackmatrix.train",
    "hackmatrix.whole_files",
}  # fmt: skip

# What each room may import besides itself. "hackmatrix" alone is the package's own __init__.py.
MAY_IMPORT: dict[str, set[str]] = {
    "hackmatrix.game": set(),
    "hackmatrix.cache": set(),
    "hackmatrix.machine": set(),
    "hackmatrix.errors": set(),
    "hackmatrix.exit_codes": set(),
    "hackmatrix.streams": set(),
    "hackmatrix.estimates": set(),
    "hackmatrix.plugins": {"hackmatrix.errors"},
    "hackmatrix.compile_cache": set(),
    "hackmatrix.whole_files": set(),
    "hackmatrix.envs": _GAME | _ERRORS | {"hackmatrix.compile_cache"},
    "hackmatrix.parallel": _ENVS
    | {"hackmatrix.machine", "hackmatrix.exit_codes", "hackmatrix.streams"},
    "hackmatrix.networks": _ENVS,
    "hackmatrix.rl": _ENVS | {"hackmatrix.parallel", "hackmatrix.networks"},
    "hackmatrix.ppo": _LEARNING - {"hackmatrix.parallel"},
    "hackmatrix.search": _LEARNING - {"hackmatrix.parallel"},
    "hackmatrix.train": _TRAIN
    | {"hackmatrix.machine", "hackmatrix.exit_codes", "hackmatrix.streams"},
    "hackmatrix.replay": _ENVS - {"hackmatrix.plugins"},
    # For machines without JAX.
    "hackmatrix.standalone": {"hackmatrix.networks", "hackmatrix.estimates"} | _ERRORS,
    # It measures whatever computes, so it may import that; only a program may import it.
    "hackmatrix.bench": _TRAIN,
    # It is for people to look at, so nothing that computes may import it.
    "hackmatrix.report": _ENVS
    | {"hackmatrix.parallel", "hackmatrix.train", "hackmatrix.replay", "hackmatrix.search"},
    # The trainer as a library, which the package offers under its own name.
    "hackmatrix.api": _TRAIN
    | {"hackmatrix.replay", "hackmatrix.report", "hackmatrix.standalone", "hackmatrix.cache"}
    | {"hackmatrix.exit_codes", "configs"},
    "hackmatrix": _ENVS | {"hackmatrix.api", "hackmatrix.machine"},
    "configs": set(),
}
MAY_IMPORT["launch"] = set(MAY_IMPORT)

# Within train, each module may import those on the lines above its own.
TRAIN = (
    {"config"},
    {"algorithms", "inputs", "warm_start", "waiting"},
    {"program"},
    {"runs"},
    {"checkpoints"},
    {"policies"},
    {"guards", "reporting"},
    {"checkpointer", "plan"},
    {"loop", "ending"},
    {"session"},
    {"seeds"},
)
_TRAINER = "hackmatrix.train"
_LINE = {f"{_TRAINER}.{name}": line for line, names in enumerate(TRAIN) for name in names}
GAME_NEEDS_ONLY = ("jax", "jaxlib.mlir", "numpy", "flax.struct")


def room_of(module: str) -> str:
    """Returns the room of a module; for one outside of the project, its top-level package."""
    names = module.split(".")
    two = ".".join(names[:2])
    return two if two in MAY_IMPORT else names[0]


def may_import(importer: str, name: str) -> bool:
    own, other = room_of(importer), room_of(name)
    if own == other == _TRAINER:
        return _may_import_within_train(importer, name)
    if own == other:
        return True
    if other in MAY_IMPORT:
        return other in MAY_IMPORT[own]
    if own != "hackmatrix.game" or other in sys.stdlib_module_names:
        return True
    return any(f"{name}.".startswith(f"{needed}.") for needed in GAME_NEEDS_ONLY)


def _may_import_within_train(importer: str, name: str) -> bool:
    own, other = (".".join(each.split(".")[:3]) for each in (importer, name))
    return own == other or _LINE.get(other, len(TRAIN)) < _LINE.get(own, -1)


def wrong_imports(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{line} imports {name}"
        for path in sources(root)
        for line, name in imported(root, path)
        if not may_import(dotted(root, path), name)
    ]


def circles(root: Path) -> list[str]:
    """Finds modules that need each other in a circle at import; returns only one such circle."""
    named = {dotted(root, path): path for path in sources(root)}

    def needed(path: Path) -> Iterator[str]:
        for _, name in imported(root, path, at_once=True):
            module = name if name in named else name.rpartition(".")[0]
            if module in named and named[module] != path:
                yield module

    try:
        graphlib.TopologicalSorter({name: needed(path) for name, path in named.items()}).prepare()
    except graphlib.CycleError as error:
        return [" needs ".join(reversed(error.args[1]))]
    return []


def wrong_helpers(root: Path) -> list[str]:
    """Finds imports of tests from other tests, except from a folder around them, or from the tests
    of a room that their own room needs.
    """
    return [
        f"{path.relative_to(root)}:{line} imports {name}"
        for path in modules(root, TESTS)
        for line, name in imported(root, path)
        if name.startswith(f"{TESTS}.")
        and not _may_help(dotted(root, path.parent), _folder(root, name))
    ]


def unlisted(root: Path) -> list[str]:
    """Finds rooms that are only in the source, or only in MAY_IMPORT and TRAIN."""
    there = {dotted(root, path) for path in sources(root)}
    rooms = {".".join(name.split(".")[:2]) for name in there if name.startswith("hackmatrix")}
    inner = {".".join(name.split(".")[:3]) for name in there if name.startswith(f"{_TRAINER}.")}
    return sorted((rooms | {*PROGRAMS}) ^ {*MAY_IMPORT}) + sorted(inner ^ {*_LINE})


def _folder(root: Path, name: str) -> str:
    """Returns the folder in which something imported lies."""
    while not (root / name.replace(".", "/")).is_dir():
        name = name.rpartition(".")[0]
    return name


def _may_help(tests: str, helpers: str) -> bool:
    """Whether tests in the one folder may import helpers from the other."""
    if f"{tests}.".startswith(f"{helpers}."):
        return True
    own, other = _tested(tests), _tested(helpers)
    if own.startswith(f"{_TRAINER}.") and other.startswith(f"{_TRAINER}."):
        return _may_import_within_train(own, other)
    return room_of(other) in _needed(room_of(own))


def _tested(folder: str) -> str:
    """Returns the room that the tests in a folder test; launch if none, as these start programs."""
    room = folder.replace(TESTS, "hackmatrix", 1)
    return room if room_of(room) not in ("hackmatrix", TESTS) else "launch"


def _needed(room: str) -> set[str]:
    """Returns the room, and all that it imports, directly or indirectly."""
    found: set[str] = set()
    more = {room}
    while more:
        found |= more
        more = {each for name in more for each in MAY_IMPORT[name]} - found
    return found
