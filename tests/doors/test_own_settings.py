"""Settings declared by an algorithm from outside the package: invalid declarations are refused in
one line, before anything is trained.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from hackmatrix.errors import UserError
from hackmatrix.train.config import Config, setting
from hackmatrix.train.config.rules import COUNT, FLAG, POSITIVE, SHARE, TEXT, WEIGHT, Rule
from hackmatrix.train.config.saved import from_json, to_json
from tests.train.settings import resolved

WIDE = Rule(bool, "some widths")


@dataclass(frozen=True)
class Hasty(Config):
    gamma: float = setting(0.5, SHARE)


@dataclass(frozen=True)
class Quick(Config):
    lr: float = setting(1e-3, POSITIVE)


@dataclass(frozen=True)
class Constant(Config):
    lr: float = 1e-3


@dataclass(frozen=True)
class Plainly(Config):
    warmth: float = 0.5


class Undecorated(Config):
    warmth: float = setting(0.5, WEIGHT, since=2)


@dataclass(frozen=True)
class Inheriting(Undecorated):
    pass


@dataclass(frozen=True)
class Tupled(Config):
    widths: tuple[int, ...] = setting((8, 8), WIDE, since=2)


@dataclass(frozen=True)
class Spelt(Config):
    words: list = setting(["warm"], TEXT, since=2)  # noqa: RUF009


@dataclass(frozen=True)
class Batched(Config):
    batch_size: int = setting(32, COUNT, since=2)


@dataclass(frozen=True)
class Chosen(Config):
    chosen: int = setting(3, COUNT, since=2)  # type: ignore[assignment]


@dataclass(frozen=True)
class Either(Config):
    widths: int | str = setting(8, FLAG, since=2)


@dataclass(frozen=True)
class Sound(Config):
    warmth: float = setting(0.5, WEIGHT, since=2)
    end: float | None = setting(None, WEIGHT, since=2)
    steps: int = setting(3, COUNT, since=2)
    name: str | None = setting(None, FLAG, since=2)
    warms: bool = setting(True, FLAG, since=2)


@dataclass(frozen=True)
class Forgetful(Config):
    warmth: float = setting(0.5, WEIGHT)


class Algorithm:
    """Only its config class is looked at here."""

    config_class: Any


def address(kind: Any) -> str:
    Algorithm.config_class = kind
    return f"{__name__}:Algorithm"


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Hasty, {}, "gamma is a setting of the trainer, whose default Hasty cannot change"),
        (Quick, {}, "lr is a setting of the trainer, whose default Quick cannot change"),
        (Constant, {}, "lr is a setting of the trainer, whose default Constant cannot change"),
        (Plainly, {}, "warmth is not a setting: Plainly has to declare it, as `setting(0.5"),
        (Plainly, {"warmth": 1.0}, "warmth is not a setting: Plainly has to declare it, as `set"),
        (Undecorated, {}, "warmth is not a setting: Undecorated lacks @dataclass(frozen=True)"),
        (Undecorated, {"warmth": 1.0}, "warmth is not a setting: Undecorated lacks @dataclass(f"),
        (Inheriting, {}, "warmth is not a setting: Undecorated lacks @dataclass(frozen=True)"),
        (Tupled, {}, "widths has type tuple: a setting must be a bool, an int, a float or a str"),
        (Spelt, {}, "words has type list: a setting must be a bool, an int, a float or a str"),
        (Batched, {}, "batch_size cannot be a setting of Batched, as Config has an attribute of"),
        (Batched, {"num_steps": -3}, "batch_size cannot be a setting of Batched, as Config has an"),
        (Chosen, {}, "chosen cannot be a setting of Chosen, as Config has an attribute of that"),
        (
            Either,
            {},
            "widths has type int | str: a setting must be a bool, an int, a float or a str",
        ),
        (dict, {}, ": its config_class must be a subclass of hackmatrix.train.config.Config"),
        ("Mine", {}, ": its config_class must be a subclass of hackmatrix.train.config.Config"),
    ],
)
def test_a_class_with_an_invalid_declaration_is_refused_in_one_line(
    kind: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as refused:
        resolved(algorithm=address(kind), **given)
    (line,) = str(refused.value).splitlines()
    assert message in line


def test_settings_of_every_type_are_saved_and_loaded() -> None:
    config = resolved(algorithm=address(Sound), warmth=0.75, end=0.25)
    assert from_json(to_json(config)) == config


def test_a_run_from_before_a_setting_existed_reports_what_its_declaration_lacks() -> None:
    """Without `since`, every run must have the setting."""
    saved = json.loads(to_json(resolved(algorithm=address(Forgetful))))
    del saved["warmth"]
    with pytest.raises(ValueError, match=r"warmth is missing, .*: declare it with `since=2` and "):
        from_json(json.dumps(saved))


@pytest.mark.parametrize("kind", [Forgetful, Config])
def test_a_saved_setting_that_is_no_longer_declared_is_reported(kind: type) -> None:
    saved = json.loads(to_json(resolved(algorithm=address(Sound))))
    address(kind)
    with pytest.raises(ValueError, match="is not a setting") as refused:
        from_json(json.dumps(saved))
    message = "steps is not a setting, but the run was saved with it: declare it again, or use the "
    assert any(line.startswith(message) for line in str(refused.value).splitlines())
