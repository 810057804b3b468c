"""Networks, algorithms and environments from outside of this package, named as MODULE:NAME.

Networks and environments may have arguments: MODULE:NAME(KEY=VALUE, ...). They are a part of the
name, so they are saved wherever it is.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hackmatrix.errors import UserError

_PACKAGE = Path(__file__).parent
_ADDRESS = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(\(.*\))?")


def is_address(text: str) -> bool:
    """Whether the text has the form MODULE:NAME, perhaps with arguments."""
    return _ADDRESS.fullmatch(text) is not None


def parts(address: str) -> tuple[str, str]:
    """Returns the module and the name, without the arguments."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        raise UserError(f"{address!r} must have the form MODULE:NAME")
    return found[1], found[2]


def arguments(address: str) -> dict[str, Any]:
    """Returns the arguments of an address; of any other name there are none."""
    found = _ADDRESS.fullmatch(address)
    if not found or not found[3]:
        return {}
    try:
        call = ast.parse(f"_{found[3]}", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or call.args:
            raise ValueError
        keywords = {each.arg: each.value for each in call.keywords}
        if None in keywords or len(keywords) < len(call.keywords):  # **given, or a name twice
            raise ValueError
        return {str(name): ast.literal_eval(value) for name, value in keywords.items()}
    except (SyntaxError, ValueError, TypeError):
        raise UserError(
            f"{address}: the arguments must be names with numbers, texts, True, False or None, "
            f"such as {found[1]}:{found[2]}(width=4, kind='wide')"
        ) from None


def load(address: str) -> Any:
    """Imports the module, which has to be on Python's path, and returns the object of that name."""
    module, name = parts(address)
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


def is_of_python(function: Any) -> bool:
    """Whether this is a function of Python's standard library, such as os.system."""
    if not inspect.isroutine(function):
        return False
    root = (getattr(function, "__module__", None) or "").partition(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None)  # a module of one's own may be code.py
    is_there = file is None or file.startswith(sysconfig.get_path("stdlib"))
    return root in sys.stdlib_module_names and is_there


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
    first, *others = [*filter(None, map(str.strip, str(error).splitlines()))] or [""]
    said = f"{first} {others[0]}" if first.endswith(":") and others else first
    return f"{type(error).__name__}: {said}{_line_of(error)}"


def _line_of(error: BaseException) -> str:
    """Returns where in the user's own code it was raised, as ", my_net.py:12"; "" if nowhere."""
    libraries = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    ours = str(_PACKAGE), str(_PACKAGE.parent / "configs" / "__init__.py")
    not_theirs = "<", *ours, *libraries
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(not_theirs):
            return f", {Path(frame.filename).name}:{frame.lineno}"
    return ""
