"""Configurations of the trainer, a get_config() per file: default.py, and small changes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict


class Settings(config_dict.ConfigDict):
    """Settings that remember which of them were given, even if with the value they had."""

    def __init__(self, usual: config_dict.ConfigDict | None = None) -> None:
        super().__init__(usual)
        object.__setattr__(self, "_given", set())

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.__dict__.get("_given", set()).add(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        object.__setattr__(self, "_given", set(state["_given"]))

    def copy_and_resolve_references(self, visit_map: dict[int, Any] | None = None) -> Settings:
        copied: Settings = super().copy_and_resolve_references(visit_map)
        object.__setattr__(copied, "_given", set(self.__dict__["_given"]))
        return copied

    def given(self) -> dict[str, Any]:
        return {name: self[name] for name in sorted(self.__dict__["_given"])}


def given_by(settings: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a configuration file gives. A file that does not build on
    configs/default.py does not remember them: there they are those that differ from the default.
    """
    if isinstance(settings, Settings):
        return settings.given()
    return {
        name: value
        for name, value in settings.items()
        if name not in default or value != default[name]
    }
