"""The settings are declared in one place and explained in another, configs/default.py."""

from __future__ import annotations

import inspect
import re

from configs import default
from hackmatrix.train.config import Config
from hackmatrix.train.config.settings import declared

SETTING = re.compile(r"config\.(\w+) = ")


def paragraphs() -> list[list[str]]:
    """The lines of the page between empty ones, from the first that has a setting."""
    blocks = inspect.getsource(default.get_config).split("\n\n")
    split = [[line.strip() for line in block.splitlines()] for block in blocks]
    return [lines for lines in split if any(SETTING.match(line) for line in lines)]


def test_the_page_has_all_settings_in_their_order_with_their_defaults() -> None:
    page = default.get_config()
    defaults = {name: setting.default for name, setting in declared(Config).items()}
    assert dict(page) == defaults
    written = [name for lines in paragraphs() for name in SETTING.findall("\n".join(lines))]
    assert written == list(defaults)


def test_a_setting_takes_the_same_type_on_the_page_as_it_was_declared_with() -> None:
    page = default.get_config()
    for name, setting in declared(Config).items():
        assert page.get_type(name) is setting.kind, name


def test_every_setting_stands_below_an_explanation() -> None:
    """A comment at the head of its paragraph; those of PPO's paper are explained there."""
    for lines in paragraphs():
        assert lines[0].startswith("# "), lines[0]
