"""Environments: the protocol that algorithms use, and the interfaces of other libraries."""

from __future__ import annotations

import inspect

from hackmatrix import plugins
from hackmatrix.envs.protocol import Environment, with_attribute
from hackmatrix.errors import UserError

__all__ = ["Environment", "make"]

# The class for each prefix of a name; it is called with the rest of the name.
PREFIXES = {"gymnax:": "hackmatrix.envs.gymnax_adapter:FromGymnax"}


def make(name: str) -> Environment:
    """Returns the environment of this name: "hackmatrix", "gymnax:NAME" for one of Gymnax, or
    "MODULE:NAME" or "MODULE:NAME(KEY=VALUE, ...)" for a class or function of your own.
    """
    if name == "hackmatrix":
        from hackmatrix.envs.hackmatrix_env import HackMatrix

        return HackMatrix()
    env: Environment
    for prefix, address in PREFIXES.items():
        if name.startswith(prefix):
            env = plugins.load(address)(name.removeprefix(prefix))
            return env
    if plugins.is_address(name):
        return _from_outside(name)
    raise UserError(
        f'there is no environment {name!r}: choose "hackmatrix", "gymnax:NAME" or "MODULE:NAME"'
    )


def _from_outside(address: str) -> Environment:
    """Makes the environment at MODULE:NAME. That becomes its name, by which `make` finds it."""
    kind = plugins.load(address)
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise UserError(
            f"{address} does not define {', '.join(missing)}, which every environment must "
            "(hackmatrix.envs.protocol)"
        )
    if not callable(kind):
        raise UserError(f"{address} must be a class or a function, not {kind!r}")
    # The name may be from a file, of an export or a run, which must not run programs of the system.
    is_another = isinstance(kind, type) and not issubclass(kind, Environment)
    if is_another or plugins.is_of_python(kind):
        raise UserError(
            f"{address} must be a hackmatrix.envs.protocol.Environment, or a function of yours "
            "that returns one"
        )
    arguments = plugins.arguments(address)
    call = address if arguments else f"{address}()"
    try:
        inspect.signature(kind).bind(**arguments)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{call} cannot be called: {error}; arguments belong to the name: "
            "MODULE:NAME(KEY=VALUE)"
        ) from None
    with plugins.as_user_error(f"{call} failed"):
        env = kind(**arguments)
    if not isinstance(env, Environment):
        raise UserError(
            f"{call} must return a hackmatrix.envs.protocol.Environment, not {type(env).__name__}"
        )
    # A copy, as a function may return the same object again.
    return with_attribute(env, "name", address)
