"""The game's faces: the trainer's environment protocol, and the interfaces of other libraries."""

from __future__ import annotations

from hackmatrix.envs.protocol import Environment, NoSuchEnvironment

_GYMNAX = "gymnax:"


def make(name: str) -> Environment:
    """The environment of that name: "hackmatrix", or "gymnax:NAME" for one of Gymnax."""
    if name == "hackmatrix":
        from hackmatrix.envs.hackmatrix_env import HackMatrix

        return HackMatrix()
    if name.startswith(_GYMNAX):
        from hackmatrix.envs.gymnax_adapter import FromGymnax

        return FromGymnax(name.removeprefix(_GYMNAX))
    raise NoSuchEnvironment(f'there is no environment {name!r}: say "hackmatrix" or "gymnax:NAME"')
