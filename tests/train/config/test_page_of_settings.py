"""The settings are declared in one place and explained in another, configs/default.py."""

from __future__ import annotations

import inspect
import re

from configs import default
from hackmatrix.train.config import Config
from hackmatrix.train.config.settings import declared

SETTING = re.compile(r"config\.(\w+) = ")


def paragraphs() -> list[list[str]]:
    """The lines of each paragraph of the page that has a setting."""
    blocks = inspect.getsource(default.get_config).split("\n\n")
    split = [[line.strip() for line in block.splitlines()] for block in blocks]
    return [lines for lines in split if any(SETTING.match(line) for line in lines)]


def test_the_page_has_all_settings_in_their_order_with_their_defaults() -> None:
    page = default.get_config()
    defaults = {name: setting.default for name, setting in declared(Config).items()}
    assert dict(page) == defaults
    written = [name for lines in paragraphs() for name in SETTING.findall("\n".join(lines))]
    assert written == list(defaults)


def test_a_setting_has_its_declared_type_on_the_page() -> None:
    page = default.get_config()
    for name, setting in declared(Config).items():
        assert page.get_type(name) is setting.kind, name


def test_every_setting_stands_below_an_explanation() -> None:
    """Its paragraph begins with a comment, if only the name of the algorithm, as for PPO."""
    for lines in paragraphs():
        assert lines[0].startswith("# "), lines[0]
