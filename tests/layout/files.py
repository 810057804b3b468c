"""Lists the modules of a tree, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

PROGRAMS = ("hackmatrix", "launch", "configs")
TESTS = "tests"


def modules(root: Path, *tops: str) -> list[Path]:
    return sorted(path for top in tops for path in (root / top).rglob("*.py"))


def sources(root: Path) -> list[Path]:
    return modules(root, *PROGRAMS)


def dotted(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imported(root: Path, path: Path, *, at_once: bool = False) -> Iterator[tuple[int, str]]:
    """Yields the line and full dotted name of everything that a file imports, also in functions;
    with `at_once` only of what is imported when the file itself is.
    """
    package = list(path.relative_to(root).parent.parts)
    tree = ast.parse(path.read_text())
    for node in _run_at_once(tree.body) if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = [*above, *([node.module] if node.module else [])]
            yield from ((node.lineno, ".".join([*source, alias.name])) for alias in node.names)


def _run_at_once(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yields all statements but those in functions and those for type checkers alone."""
    for statement in statements:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from _run_at_once(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
            inner = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
            yield from _run_at_once(inner)
