"""The base class of errors that a user causes and can correct, and the words for wrong flags."""

from __future__ import annotations

import re

# Error messages of absl and ml_collections, and what to print instead.
_IN_OTHER_WORDS = {
    r"invalid literal for int\(\).*": "give a whole number, like 1_000_000",
    r"could not convert string to float.*": "give a number, like 0.5 or 1e-3",
    r"\('Non-boolean argument to boolean flag'.*": "give True or False",
    r"The flag '(config\.\w+)' is defined twice.*": r"give --config=FILE only once, before --\1",
    r"Type <class 'NoneType'> of field (config\.\w+) is not supported.*": r"the configuration file "
    r"sets \1 to None, which has no type: set it to config_dict.placeholder(float), or one of "
    r"another type (from ml_collections)",
    r"Found (\S+) in argv before a value for --config.*": r"put --config=FILE before \1",
}


class UserError(Exception):
    """Something that a user asked for cannot be done. Each line of the message says what is wrong
    and what to do; programs print these lines, without a traceback, and exit with 1.
    """

    def _render_traceback_(self) -> list[str]:
        """What a notebook prints in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def of_flag(error: Exception) -> str:
    """Describes in one line what is wrong with a flag."""
    text = str(error)
    for theirs, ours in _IN_OTHER_WORDS.items():
        text = re.sub(theirs, ours, text)
    return " ".join(text.split())
