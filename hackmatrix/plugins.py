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

_PACKAGE = Path(__file__).parent
_ADDRESS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_address(text: str) -> bool:
    """Whether the text has the form MODULE:NAME."""
    return _ADDRESS.fullmatch(text) is not None


def load(address: str) -> Any:
    """Imports the module, which has to be on Python's path, and returns the object of that name."""
    module, _, name = address.partition(":")
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # code from outside may raise anything
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        if lacks is None or not f"{module}.".startswith(f"{lacks}."):  # the module itself is there
            raise UserError(f"{address}: {why(error)}") from error
        if module.endswith(".py"):
            raise UserError(
                f"{address}: give the name of the module, not of its file: use "
                f"{module.removesuffix('.py')}:{name}"
            ) from None
        raise UserError(
            f"{address}: there is no module {lacks!r} on Python's path; start the program "
            "in the module's directory, or set PYTHONPATH"
        ) from None
    try:
        return getattr(loaded, name)
    except AttributeError:
        own = "; move it from the notebook or program into a module of its own"
        raise UserError(
            f"{address}: the module {module!r} has no {name!r}{own if module == '__main__' else ''}"
        ) from None


@contextmanager
def as_user_error(what: str, then: str = "") -> Iterator[None]:
    """Turns an error of code from outside into a UserError whose message begins with `what`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # code from outside may raise anything
        raise UserError(f"{what}: {why(error)}{then}") from error


def why(error: BaseException) -> str:
    """Describes an error of code from outside: its type, the first line of its message, and where
    it was raised. A line that ends with a colon only announces the next, which is then included.
    """
    first, *others = str(error).splitlines() or [""]
    said = f"{first} {others[0].strip()}" if first.endswith(":") and others else first
    return f"{type(error).__name__}: {said}{line_of(error)}"


def line_of(error: BaseException) -> str:
    """Returns where in the user's own code it was raised, as ", my_net.py:12"; "" if nowhere."""
    libraries = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    ours = str(_PACKAGE), str(_PACKAGE.parent / "configs" / "__init__.py")
    not_theirs = "<", *ours, *libraries
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(not_theirs):
            return f", {Path(frame.filename).name}:{frame.lineno}"
    return ""
