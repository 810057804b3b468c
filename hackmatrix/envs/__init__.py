"""Environments: the protocol that algorithms use, and the interfaces of other libraries."""

from __future__ import annotations

from hackmatrix import plugins
from hackmatrix.envs.protocol import Environment, NoSuchEnvironment

# What a prefix of a name stands for; the rest of the name is handed to it.
PREFIXES = {"gymnax:": "hackmatrix.envs.gymnax_adapter:FromGymnax"}


def make(name: str) -> Environment:
    """The environment of that name: "hackmatrix", "gymnax:NAME" for one of Gymnax, or "MODULE:NAME"
    for a class of your own.
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
        env = plugins.load(name)()
        return env
    raise NoSuchEnvironment(
        f'there is no environment {name!r}: say "hackmatrix", "gymnax:NAME" or "MODULE:NAME"'
    )
