"""The layout of the source and of the tests: which module imports which, how long a module is, and
what it may be called.

Each check takes the root of a tree and returns what is wrong in it, one line each; so it can be
tried on a small wrong tree as well as on ours.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.layout.files import sources
from tests.layout.rooms import circles, unlisted, wrong_helpers, wrong_imports
from tests.layout.shapes import (
    foreign_text,
    large_folders,
    long_modules,
    namesakes,
    vague_names,
)

ROOT = Path(__file__).parents[1]

Check = Callable[[Path], list[str]]


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_imports_run_one_way() -> None:
    assert wrong_imports(ROOT) == []


def test_no_modules_need_each_other_in_a_circle() -> None:
    assert circles(ROOT) == []


def test_every_room_has_a_place_in_the_order_of_imports() -> None:
    assert unlisted(ROOT) == []


def test_tests_import_one_way() -> None:
    assert wrong_helpers(ROOT) == []


def test_a_module_is_short_enough_to_read() -> None:
    assert long_modules(ROOT) == []


def test_a_folder_has_few_enough_modules_to_know_them() -> None:
    assert large_folders(ROOT) == []


def test_no_module_has_a_vague_name() -> None:
    assert vague_names(ROOT) == []


def test_no_two_modules_of_tests_have_the_same_name() -> None:
    assert namesakes(ROOT) == []


def test_no_line_names_a_place_that_only_some_machines_have() -> None:
    assert foreign_text(ROOT) == []


def test_an_installed_package_has_its_files_that_are_not_modules() -> None:
    others = {".html", ".css", ".js", ".typed"}
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    package_data = tools["setuptools"]["package-data"]
    found = [path for path in (ROOT / "hackmatrix").rglob("*") if path.suffix in others]
    assert ROOT / "hackmatrix/py.typed" in found  # without it type checkers ignore our types
    for path in found:
        package = ".".join(path.relative_to(ROOT).parent.parts)
        assert f"*{path.suffix}" in package_data.get(package, []), f"{path.name} is not installed"


def test_the_source_of_the_game_is_found() -> None:
    assert ROOT / "hackmatrix/game" in {path.parent for path in sources(ROOT)}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("hackmatrix/game/turn.py", "import optax"),
        ("hackmatrix/game/turn.py", "import flax"),
        ("hackmatrix/game/turn.py", "from flax import linen"),
        ("hackmatrix/game/turn.py", "from hackmatrix.envs import make"),
        ("hackmatrix/game/turn.py", "from ..envs import make"),
        ("hackmatrix/game/turn.py", "from .. import envs"),
        ("hackmatrix/game/turn.py", "import hackmatrix"),
        ("hackmatrix/game/turn.py", "def lazily():\n    import hackmatrix.train"),
        ("hackmatrix/envs/protocol.py", "from hackmatrix import ppo"),
        ("hackmatrix/game/turn.py", "from hackmatrix.errors import UserError"),
        ("hackmatrix/errors.py", "from hackmatrix import plugins"),
        ("hackmatrix/envs/__init__.py", "from hackmatrix.networks import make"),
        ("hackmatrix/networks/mlp.py", "from hackmatrix.rl import draws"),
        ("hackmatrix/rl/rollout.py", "from hackmatrix.ppo import loss"),
        ("hackmatrix/rl/rollout.py", "from hackmatrix.train import config"),
        ("hackmatrix/ppo/algorithm.py", "from hackmatrix.parallel.mesh import axis"),
        ("hackmatrix/ppo/algorithm.py", "from hackmatrix.train.config import Config"),
        ("hackmatrix/parallel/mesh.py", "import hackmatrix.ppo.loss"),
        ("hackmatrix/standalone/policy.py", "from hackmatrix.envs.protocol import in_parts"),
        ("hackmatrix/train/config/rules.py", "from hackmatrix.train.runs import directory"),
        ("hackmatrix/train/program.py", "from hackmatrix.train.reporting import health"),
        ("hackmatrix/train/guards/guard.py", "from hackmatrix.train.reporting import health"),
        ("hackmatrix/train/reporting/health.py", "from ..checkpointer import Checkpointer"),
        ("hackmatrix/train/loop.py", "import hackmatrix.train.session"),
        ("hackmatrix/train/newcomer.py", "from hackmatrix.train.config import Config"),
        ("hackmatrix/replay/html.py", "from hackmatrix.train import loop"),
        ("hackmatrix/train/loop.py", "from launch import train"),
        ("hackmatrix/train/loop.py", "from configs import default"),
        ("hackmatrix/train/loop.py", "from hackmatrix.bench import timing"),
        ("hackmatrix/train/session.py", "from hackmatrix.report import games"),
        ("hackmatrix/bench/environment.py", "from hackmatrix import replay"),
        ("hackmatrix/__init__.py", "from . import train"),
        ("configs/default.py", "from hackmatrix.train import config"),
    ],
)
def test_an_import_that_goes_the_wrong_way_is_reported(
    tmp_path: Path, path: str, line: str
) -> None:
    write(tmp_path, path, line)
    assert len(wrong_imports(tmp_path)) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("hackmatrix/game/turn.py", "from flax import struct"),
        ("hackmatrix/game/turn.py", "import flax.struct"),
        ("hackmatrix/game/turn.py", "import jax.numpy as jnp, numpy as np, functools"),
        ("hackmatrix/game/turn.py", "from . import state"),
        ("hackmatrix/game/turn.py", "from .state import State"),
        ("hackmatrix/game/__init__.py", "from .state import State"),
        ("hackmatrix/game/scenario/text.py", "from ..state import State"),
        ("hackmatrix/envs/protocol.py", "from hackmatrix import game"),
        ("hackmatrix/envs/__init__.py", "from hackmatrix import errors, plugins"),
        ("hackmatrix/ppo/algorithm.py", "import optax\nfrom hackmatrix import envs, networks, rl"),
        ("hackmatrix/rl/evaluation.py", "from hackmatrix import networks, parallel"),
        ("hackmatrix/standalone/policy.py", "from hackmatrix.networks import files"),
        ("hackmatrix/train/loop.py", "from hackmatrix import parallel, rl"),
        ("hackmatrix/train/loop.py", "from hackmatrix.train import config, guards, checkpointer"),
        ("hackmatrix/train/guards/guard.py", "from .signals import Signals"),
        ("hackmatrix/replay/html.py", "from hackmatrix.game import state"),
        ("hackmatrix/report/page.py", "from hackmatrix import replay, train"),
        ("hackmatrix/bench/update.py", "from hackmatrix import envs, game, parallel, ppo, train"),
        ("launch/train.py", "from configs import default\nfrom hackmatrix import replay, train"),
    ],
)
def test_an_import_that_goes_the_right_way_is_not_reported(
    tmp_path: Path, path: str, line: str
) -> None:
    write(tmp_path, path, line)
    assert wrong_imports(tmp_path) == []


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (long_modules, "hackmatrix/game/turn.py", "pass\n" * 301),
        (long_modules, "tests/game/test_turn.py", "pass\n" * 301),
        (vague_names, "hackmatrix/envs/utils.py", ""),
        (vague_names, "tests/helpers/boards.py", ""),
        (foreign_text, "Makefile", "include /" + "work/main/Makefile"),
        (foreign_text, "tests/test_golden.py", "GOLDEN = '../" + "shared/golden'"),
        (foreign_text, "constraints.txt", "--extra-" + "index-url=x"),
        (foreign_text, ".ci/run", "curl https://py" + "pi.org/simple"),
    ],
)
def test_a_broken_rule_is_reported(tmp_path: Path, check: Check, path: str, text: str) -> None:
    write(tmp_path, path, text)
    assert len(check(tmp_path)) == 1


def test_a_circle_is_reported_but_not_one_by_late_imports_or_those_for_types(
    tmp_path: Path,
) -> None:
    write(tmp_path, "hackmatrix/rl/draws.py", "from hackmatrix.rl import tally")
    write(tmp_path, "hackmatrix/rl/tally.py", "class Tally:\n    from hackmatrix.rl import rollout")
    for later in (
        "def late():\n    from hackmatrix.rl import draws",
        "if TYPE_CHECKING:\n    from hackmatrix.rl import draws",
    ):
        write(tmp_path, "hackmatrix/rl/rollout.py", later)
        assert circles(tmp_path) == []
    write(tmp_path, "hackmatrix/rl/rollout.py", "from hackmatrix.rl.draws import Purpose")
    (circle,) = circles(tmp_path)
    assert circle.count(" needs ") == 3


@pytest.mark.parametrize(
    ("path", "line", "is_wrong"),
    [
        ("tests/rl/test_tally.py", "from tests.rl.rolled import roll", False),
        ("tests/rl/test_tally.py", "from tests.toy import Toy", False),
        ("tests/rl/test_tally.py", "from tests.envs import toy", False),
        ("tests/rl/test_tally.py", "from tests.train.settings import config", True),
        ("tests/rl/test_tally.py", "def late():\n    import tests.ppo.played", True),
        ("tests/train/guards/test_guard.py", "from tests.train.settings import config", False),
        ("tests/train/guards/test_guard.py", "from tests.train.runs.saved import run", False),
        ("tests/train/runs/test_clock.py", "from tests.train.guards.stuck import stuck", True),
        ("tests/train/test_loop.py", "from tests.train.runs.saved import run", False),
        ("tests/report/test_page.py", "from tests.train.runs.saved import run", False),
        ("tests/replay/test_page.py", "from tests.train.runs.saved import run", True),
        ("tests/standalone/test_policy.py", "from tests.envs.toy import Toy", False),
        ("tests/processes/test_all.py", "from tests.train.runs.saved import run", False),
        ("tests/train/test_loop.py", "from tests.processes.pod import Pod", True),
    ],
)
def test_helpers_of_tests_come_from_folders_around_or_rooms_below(
    tmp_path: Path, path: str, line: str, is_wrong: bool
) -> None:
    for folder in ("rl", "envs", "ppo", "processes", "train/runs", "train/guards"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    write(tmp_path, path, line)
    assert len(wrong_helpers(tmp_path)) == is_wrong


def test_init_files_do_not_count_as_modules_of_a_folder(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"hackmatrix/rl/draws_{number}.py", "")
    write(tmp_path, "hackmatrix/rl/__init__.py", "")
    assert large_folders(tmp_path) == []
    write(tmp_path, "hackmatrix/rl/draws.py", "")
    assert large_folders(tmp_path) == ["hackmatrix/rl has 13 modules"]


def test_modules_of_tests_with_the_same_name_are_reported(tmp_path: Path) -> None:
    for path in ("tests/rl/test_draws.py", "tests/game/test_draws.py", "tests/rl/conftest.py"):
        write(tmp_path, path, "")
    write(tmp_path, "tests/game/conftest.py", "")
    assert namesakes(tmp_path) == ["test_draws.py is in 2 folders"]


def test_a_path_inside_the_project_is_not_foreign(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "Look into hackmatrix/" + "work/ and ./" + "home/.")
    assert foreign_text(tmp_path) == []
