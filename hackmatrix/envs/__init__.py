"""Environments: the protocol that algorithms use, and the interfaces of other libraries."""

from __future__ import annotations

import inspect

from hackmatrix import plugins
from hackmatrix.envs.protocol import Environment, changed
from hackmatrix.errors import UserError

# What a prefix of a name stands for; the rest of the name is handed to it.
PREFIXES = {"gymnax:": "hackmatrix.envs.gymnax_adapter:FromGymnax"}


def make(name: str) -> Environment:
    """The environment of that name: "hackmatrix", "gymnax:NAME" for one of Gymnax, or "MODULE:NAME"
    for a class of your own, or a function, that gives one without arguments.
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
    """It is called by its address, which is what finds it again, whatever name it inherits."""
    kind = plugins.load(address)
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise UserError(
            f"{address} lacks {', '.join(missing)}, which every environment has "
            "(hackmatrix.envs.protocol)"
        )
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{address} is called without arguments, but: {error}; name a subclass of it, or a "
            "function without arguments, that gives them"
        ) from None
    with plugins.as_user_error(f"{address} fails when it is made"):
        env = kind()
    if not isinstance(env, Environment):
        raise UserError(
            f"{address} gives a {type(env).__name__}, which is not a "
            "hackmatrix.envs.protocol.Environment"
        )
    return changed(env, "name", address)  # a copy: a function may give the same one every time
