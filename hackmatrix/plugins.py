"""Networks, algorithms and environments from outside of this package, named as MODULE:NAME."""

from __future__ import annotations

import importlib
import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hackmatrix.errors import UserError

_ADDRESS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_address(text: str) -> bool:
    """Whether the text has the form MODULE:NAME."""
    return _ADDRESS.fullmatch(text) is not None


def load(address: str) -> Any:
    """The object of that name in that module, which has to be on Python's path."""
    module, _, name = address.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            # The module is there, and itself imports one that is not.
            raise UserError(f"{address}: {why(error)}") from error
        if module.endswith(".py"):
            raise UserError(
                f"{address}: leave out .py, as a module is named, not a file: use "
                f"{module.removesuffix('.py')}:{name}"
            ) from None
        raise UserError(
            f"{address}: there is no module {error.name!r} on Python's path; start the program "
            "where the module lies, or set PYTHONPATH"
        ) from None
    try:
        return getattr(loaded, name)
    except AttributeError:
        own = "; put what a notebook or a program defines itself into a module"
        raise UserError(
            f"{address}: the module {module!r} has no {name!r}{own if module == '__main__' else ''}"
        ) from None


@contextmanager
def as_user_error(what: str, then: str = "") -> Iterator[None]:
    """Where code from outside raises something, it is said in words that begin with `what`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # it is not ours, so it may be any
        raise UserError(f"{what}: {why(error)}{then}") from error


def why(error: BaseException) -> str:
    """Of what code from outside raised: the kind of the error, its first line, and where. A line
    that ends with a colon only announces the next one.
    """
    first, *others = str(error).splitlines() or [""]
    said = f"{first} {others[0].strip()}" if first.endswith(":") and others else first
    return f"{type(error).__name__}: {said}{line_of(error)}"


def line_of(error: BaseException) -> str:
    """Where in the user's own code it came about, such as ", my_net.py:12"; "" if nowhere."""
    libraries = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    not_theirs = "<", str(Path(__file__).parent), *libraries
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(not_theirs):
            return f", {Path(frame.filename).name}:{frame.lineno}"
    return ""
