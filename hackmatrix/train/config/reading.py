"""Reads configuration files: the settings that a file's get_config() returns."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import runpy
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from ml_collections import config_dict

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.train.config import faults
from hackmatrix.train.config.settings import Config, declared

_ROOT, _FOLDER = Path(__file__).parents[3], Path("configs")  # a package, for files to import
DEFAULT = _ROOT / _FOLDER / "default.py"


def read(named: str | Path) -> Mapping[str, Any]:
    """Returns the settings of FILE.py, or of FILE.py:ARGUMENT, whose get_config() is called with
    the argument. configs/NAME.py is the trainer's file if there is none in the working directory.
    """
    _check_package()
    path, *argument = re.split(r"(?<=\.py):", str(named), maxsplit=1)
    file = _found(Path(os.path.expanduser(path)), named)
    try:
        get_config = runpy.run_path(str(file)).get("get_config")
        if get_config is None:
            raise UserError(f"the configuration {named} has no get_config()")
        _check_call(get_config, argument, named)
        found = get_config(*argument)
    except (OSError, SyntaxError) as error:
        why = re.sub(r"\[Errno \d+\] ", "", str(error))
        raise UserError(f"the configuration {named} cannot be read: {why}") from None
    except UserError:
        raise
    except Exception as error:  # the file is user code, which may raise anything
        if name := faults.unknown_name(error):
            raise UserError(faults.unknown(name)) from None
        raise UserError(f"the configuration {named} fails: {plugins.why(error)}") from error
    if hasattr(found, "keys") and all(isinstance(name, str) for name in [*found]):
        return found
    raise UserError(
        f"the configuration {named} returns {type(found).__name__} instead of settings by name: "
        "its get_config() has to end with `return config`"
    )


def default() -> Mapping[str, Any]:
    """Returns the settings of configs/default.py."""
    return read(DEFAULT)


def read_whole(named: str | Path) -> config_dict.ConfigDict:
    """Returns the settings of a file, with defaults for those that it does not set."""
    found = read(named)
    if isinstance(found, config_dict.ConfigDict) and declared(Config).keys() <= {*found}:
        return found
    # A copy: the ConfigDict of default.py itself would record every setting as given.
    whole, wrong = config_dict.ConfigDict(default()), []
    for name, value in found.items():
        try:
            whole[name] = plain(value)
        except TypeError:  # of another type
            wrong.append(faults.wrong(name, value))
    if wrong:
        raise UserError("\n".join(wrong))
    return whole


def plain(value: Any) -> Any:
    """Returns a setting in the form that is saved with the run: a number for an array of one, the
    path as a string, and MODULE:NAME for a class or function, with the arguments of a partial one.
    """
    if isinstance(value, partial) and not value.args:
        given = ", ".join(f"{name}={each!r}" for name, each in value.keywords.items())
        return f"{plain(value.func)}({given})"
    if isinstance(value, Path):
        return str(value)
    if getattr(value, "ndim", None) == 0:
        return value.item()
    if not isinstance(value, type | FunctionType):
        return value
    name = f"{value.__module__}:{value.__qualname__}"
    if getattr(sys.modules.get(value.__module__), value.__qualname__, value) is not value:
        raise UserError(
            f"{name} is another object than the one given, as that name was defined again or its "
            "module imported again; runs find it by its name, so each needs a name of its own"
        )
    return name


def _check_package() -> None:
    """Raises UserError if another package `configs`, as in the working directory, hides ours."""
    found = importlib.util.find_spec(_FOLDER.name)
    ours = _ROOT / _FOLDER / "__init__.py"
    if found and not (found.origin and ours.samefile(found.origin)):
        # A folder without an __init__.py has no origin.
        origin = found.origin or next(iter(found.submodule_search_locations or ()), "another")
        theirs = origin.removesuffix(f"{os.sep}{ours.name}")
        raise UserError(
            f"{theirs} hides the trainer's {_FOLDER}: rename it, or start in another directory and "
            "pass your file as --config=PATH"
        )


def _check_call(get_config: Any, argument: list[str], named: str | Path) -> None:
    """Raises UserError if get_config() does not take the argument, or needs one."""
    try:
        inspect.signature(get_config, follow_wrapped=False).bind(*argument)
    except TypeError as error:
        raise UserError(
            f"the configuration {named} calls get_config({', '.join(map(repr, argument))}), but: "
            f"{error}; FILE.py calls get_config(), and FILE.py:ARGUMENT get_config('ARGUMENT')"
        ) from None


def _found(file: Path, named: str | Path) -> Path:
    """Returns the file that this path means; raises UserError if there is none."""
    if not os.path.exists(file) and file.parent == _FOLDER:
        file = _ROOT / file
    if os.path.isdir(file):
        raise UserError(f"the configuration {named} is a directory: name a file, FILE.py")
    if os.path.exists(file):
        return file
    near = _FOLDER / f"{file.stem}.py"
    hint = f"; did you mean {near}?" if os.path.isfile(_ROOT / near) else ""
    raise UserError(f"the configuration {named} cannot be read: No such file or directory{hint}")
