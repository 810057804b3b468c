"""The layout of the source: who imports whom, how long a module is, what it may be called.

Each check takes the root of a tree and returns what is wrong in it, one line each; so it can be
tried on a small wrong tree as well as on ours.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = ("hackmatrix", "launch", "configs")

# What each part may import besides itself. "hackmatrix" alone is the package's own __init__.py.
MAY_IMPORT: dict[str, set[str]] = {
    "hackmatrix.game": set(),
    "hackmatrix.envs": {"hackmatrix.game"},
    "hackmatrix.ppo": {"hackmatrix.envs", "hackmatrix.game"},
    "hackmatrix.parallel": {"hackmatrix.envs", "hackmatrix.game"},
    "hackmatrix.replay": {"hackmatrix.envs", "hackmatrix.game"},
    "hackmatrix": {"hackmatrix.envs", "hackmatrix.game"},
    "configs": set(),
}
MAY_IMPORT["hackmatrix.train"] = set(MAY_IMPORT) - {"hackmatrix.replay", "configs"}
# It measures all that computes, so it may know it; only a program needs what was measured.
MAY_IMPORT["hackmatrix.bench"] = {
    "hackmatrix.train", "hackmatrix.ppo", "hackmatrix.parallel", "hackmatrix.envs",
    "hackmatrix.game",
}  # fmt: skip
# What people look at, so nothing that computes may need it.
MAY_IMPORT["hackmatrix.report"] = {
    "hackmatrix.train", "hackmatrix.replay", "hackmatrix.envs", "hackmatrix.game",
}  # fmt: skip
# For machines without JAX, so it needs nothing of the rest.
MAY_IMPORT["hackmatrix.standalone"] = set()
MAY_IMPORT["launch"] = set(MAY_IMPORT)

GAME_NEEDS_ONLY = ("jax", "numpy", "flax.struct")
LONGEST_MODULE = 349
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

Check = Callable[[Path], list[str]]


def sources(root: Path) -> list[Path]:
    return sorted(path for top in PROGRAMS for path in (root / top).rglob("*.py"))


def dotted(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """The part of the project that a module belongs to, or its top-level package outside it."""
    names = module.split(".")
    two = ".".join(names[:2])
    return two if two in MAY_IMPORT else names[0]


def imported(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of everything that a file imports, wherever it does so."""
    package = list(path.relative_to(root).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = [*above, *([node.module] if node.module else [])]
            yield from ((node.lineno, ".".join([*source, alias.name])) for alias in node.names)


def may_import(importer: str, name: str) -> bool:
    part = part_of(name)
    if part == importer:
        return True
    if part in MAY_IMPORT:
        return part in MAY_IMPORT[importer]
    if importer != "hackmatrix.game" or part in sys.stdlib_module_names:
        return True
    return any(f"{name}.".startswith(f"{needed}.") for needed in GAME_NEEDS_ONLY)


def wrong_imports(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{line} imports {name}"
        for path in sources(root)
        for line, name in imported(root, path)
        if not may_import(part_of(dotted(root, path)), name)
    ]


def long_modules(root: Path) -> list[str]:
    lengths = {path: len(path.read_text().splitlines()) for path in sources(root)}
    return [
        f"{path.relative_to(root)} has {length} lines"
        for path, length in lengths.items()
        if length > LONGEST_MODULE
    ]


def vague_names(root: Path) -> list[str]:
    paths = [*sources(root), *sorted((root / "tests").rglob("*.py"))]
    names = {path.relative_to(root).with_suffix("") for path in paths}
    return [f"{name} says nothing" for name in sorted(names) if VAGUE_NAMES & set(name.parts)]


def foreign_text(root: Path) -> list[str]:
    """Lines that name a place which only some machines have."""
    folders = [root / name for name in (*PROGRAMS, "tests", "scripts", ".ci")]
    files = [path for folder in folders for path in folder.rglob("*")]
    files += [*root.glob("*.toml"), *root.glob("*.txt"), *root.glob("*.md"), root / "Makefile"]
    return [
        f"{path.relative_to(root)}:{number} {line.strip()}"
        for path in sorted(files)
        if path.is_file() and path.suffix in {"", ".py", ".sh", ".toml", ".txt", ".md"}
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if FOREIGN_TEXT.search(line)
    ]


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_imports_run_one_way() -> None:
    assert wrong_imports(ROOT) == []


def test_a_module_is_short_enough_to_read() -> None:
    assert long_modules(ROOT) == []


def test_a_module_is_named_after_its_idea() -> None:
    assert vague_names(ROOT) == []


def test_no_line_names_a_place_that_only_some_machines_have() -> None:
    assert foreign_text(ROOT) == []


def test_the_source_of_the_game_is_found() -> None:
    assert ROOT / "hackmatrix/game" in {path.parent for path in sources(ROOT)}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("hackmatrix/game/turn.py", "import optax"),
        ("hackmatrix/game/turn.py", "import flax"),
        ("hackmatrix/game/turn.py", "from flax import linen"),
        ("hackmatrix/game/turn.py", "from hackmatrix.envs import make"),
        ("hackmatrix/game/turn.py", "from ..envs import make"),
        ("hackmatrix/game/turn.py", "from .. import envs"),
        ("hackmatrix/game/turn.py", "import hackmatrix"),
        ("hackmatrix/game/turn.py", "def lazily():\n    import hackmatrix.train"),
        ("hackmatrix/envs/protocol.py", "from hackmatrix import ppo"),
        ("hackmatrix/ppo/update.py", "from hackmatrix.parallel.mesh import axis"),
        ("hackmatrix/parallel/mesh.py", "import hackmatrix.ppo.loss"),
        ("hackmatrix/replay/html.py", "from hackmatrix.train import loop"),
        ("hackmatrix/train/loop.py", "from launch import train"),
        ("hackmatrix/train/loop.py", "from configs import default"),
        ("hackmatrix/train/loop.py", "from hackmatrix.bench import timing"),
        ("hackmatrix/train/session.py", "from hackmatrix.report import games"),
        ("hackmatrix/bench/environment.py", "from hackmatrix import replay"),
        ("hackmatrix/__init__.py", "from . import train"),
        ("configs/default.py", "from hackmatrix.train import config"),
    ],
)
def test_an_import_that_goes_the_wrong_way_is_reported(
    tmp_path: Path, path: str, line: str
) -> None:
    write(tmp_path, path, line)
    assert len(wrong_imports(tmp_path)) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("hackmatrix/game/turn.py", "from flax import struct"),
        ("hackmatrix/game/turn.py", "import flax.struct"),
        ("hackmatrix/game/turn.py", "import jax.numpy as jnp, numpy as np, functools"),
        ("hackmatrix/game/turn.py", "from . import state"),
        ("hackmatrix/game/turn.py", "from .state import State"),
        ("hackmatrix/game/__init__.py", "from .state import State"),
        ("hackmatrix/game/scenario/text.py", "from ..state import State"),
        ("hackmatrix/envs/protocol.py", "from hackmatrix import game"),
        ("hackmatrix/ppo/update.py", "import optax\nfrom hackmatrix.envs import make"),
        ("hackmatrix/train/loop.py", "from hackmatrix import parallel, ppo"),
        ("hackmatrix/replay/html.py", "from hackmatrix.game import state"),
        ("hackmatrix/report/page.py", "from hackmatrix import replay, train"),
        ("hackmatrix/bench/update.py", "from hackmatrix import envs, game, parallel, ppo, train"),
        ("launch/train.py", "from configs import default\nfrom hackmatrix import replay, train"),
    ],
)
def test_an_import_that_goes_the_right_way_is_not_reported(
    tmp_path: Path, path: str, line: str
) -> None:
    write(tmp_path, path, line)
    assert wrong_imports(tmp_path) == []


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (long_modules, "hackmatrix/game/turn.py", "pass\n" * 350),
        (vague_names, "hackmatrix/envs/utils.py", ""),
        (vague_names, "tests/helpers/boards.py", ""),
        (foreign_text, "Makefile", "include /" + "work/main/Makefile"),
        (foreign_text, "tests/test_golden.py", "GOLDEN = '../" + "shared/golden'"),
        (foreign_text, "constraints.txt", "--extra-" + "index-url=x"),
        (foreign_text, ".ci/run", "curl https://py" + "pi.org/simple"),
    ],
)
def test_a_broken_rule_is_reported(tmp_path: Path, check: Check, path: str, text: str) -> None:
    write(tmp_path, path, text)
    assert len(check(tmp_path)) == 1


def test_a_path_inside_the_project_is_not_foreign(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "Look into hackmatrix/" + "work/ and ./" + "home/.")
    assert foreign_text(tmp_path) == []
