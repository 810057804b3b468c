"""Rules for the values of a setting, as predicates and in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hackmatrix import plugins
from hackmatrix.networks import NETWORKS

AUTO = "auto"  # resume=auto
LONGEST_NAME = 200  # of a run, whose files have endings
_LONGEST_OF_A_DISK = 255
_GREATEST = sys.float_info.max  # an int may be greater
# The address of each algorithm, as MODULE:NAME.
ALGORITHMS = {"ppo": "hackmatrix.ppo:PPO", "expert": "hackmatrix.search.expert:Expert"}
# The names in a run's directory that its checkpoint_dir may not have.
_OF_A_RUN = {
    "config.json", "config.new", "provenance.json", "provenance.new", "metrics.jsonl",
    "evaluation.json", "report.html", "wandb_id", "owner", "tensorboard", "replays", "exported",
    "exported-best", "wandb",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """`must_be` completes the sentence "NAME=VALUE must be ..."."""

    holds: Callable[[Any], bool]
    must_be: str


def _is_name(value: str, longest: int = LONGEST_NAME) -> bool:
    return len(value) <= longest and re.fullmatch(r"\w[\w.-]*", value, re.ASCII) is not None


def one_of(*names: str) -> Rule:
    return Rule(lambda value: value in names, _either(*names))


def one_of_or_plugin(*names: str) -> Rule:
    """A rule for one of our names, or the address of a plugin, MODULE:NAME."""
    return Rule(
        lambda value: value in names or plugins.is_address(value),
        f"{_either(*names, 'MODULE:NAME')} of your own",
    )


def _either(*names: str) -> str:
    *most, last = (f'"{name}"' for name in names)
    return f"{', '.join(most)} or {last}"


def _whole(least: int, most: int) -> Rule:
    return Rule(lambda value: least <= value <= most, f"a whole number from {least} to {most}")


FLAG = Rule(lambda value: True, "True or False")
COUNT = Rule(lambda value: value >= 1, "a whole number of at least 1")
SIZE = _whole(1, 2**31 - 1)
SEEDS = _whole(1, 10_000)
COUNT_FROM_0 = Rule(lambda value: value >= 0, "a whole number of at least 0")
# Each simulation adds a board to an environment's tree, and an entry to seventeen tables of mctx.
SIMULATIONS = _whole(1, 100_000)
ACTIONS = _whole(0, 2**31 - 1)
SEED = _whole(0, 2**32 - 1)
MOST_STEPS = 2**63 - 1
STEPS = _whole(1, MOST_STEPS)
GAMES = _whole(1, 2**32 - 1)
GAMES_FROM_0 = _whole(0, 2**32 - 1)
POSITIVE = Rule(lambda value: 0 < value <= _GREATEST, "a number above 0")
WEIGHT = Rule(lambda value: 0 <= value <= _GREATEST, "a number of at least 0")
SHARE = Rule(lambda value: 0 <= value <= 1, "a number from 0 to 1")
INNER_SHARE = Rule(lambda value: 0 < value < 1, "a number between 0 and 1")
NAME = Rule(
    _is_name,
    "a name of at most 200 letters (a-z, A-Z), digits, dots, dashes and underscores that does not "
    "start with a dot or a dash",
)
RUN_NAME = Rule(
    lambda value: _is_name(value) and value != AUTO, f'{NAME.must_be}, and not "{AUTO}"'
)
FOLDER = Rule(
    # Runs of earlier revisions may have a longer folder.
    lambda value: _is_name(value, _LONGEST_OF_A_DISK) and value not in _OF_A_RUN,
    f"{NAME.must_be}, and not the name of another file or folder of a run",
)
TEXT = Rule(lambda value: value.strip() != "", "a string that is not blank")
DTYPE = one_of("float32", "bfloat16")
ENVIRONMENT = Rule(
    lambda value: (
        value == "hackmatrix"
        or re.fullmatch(r"gymnax:\S+", value) is not None
        or plugins.is_address(value)
    ),
    '"hackmatrix", "gymnax:NAME" such as "gymnax:CartPole-v1", or "MODULE:NAME" of your own',
)
NETWORK = one_of_or_plugin(*NETWORKS)
ALGORITHM = one_of_or_plugin(*ALGORITHMS)
