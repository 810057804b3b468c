"""The command line: flags override a file before JAX is loaded; a mistake is one line of output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hackmatrix.train.config.saved import from_json

ROOT = Path(__file__).parents[3]

# A small program that parses its command line as the launch programs do.
PROGRAM = """
import sys
from absl import app
from hackmatrix.errors import UserError
from hackmatrix.train.config import command_line, resolve
from hackmatrix.train.config.saved import to_json

CONFIG = command_line.define_config("launch.little")

def main(arguments):
    try:
        print(to_json(resolve(CONFIG.value, "cpu", 1)))
    except UserError as error:
        sys.exit(str(error))
    assert "jax" not in sys.modules

app.run(main, flags_parser=command_line.parser("launch.little"))
"""


def launch(*arguments: str, where: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"]))}
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True)


def test_flags_override_a_configuration_file_before_jax_is_loaded() -> None:
    done = launch("--config=configs/cpu.py", "--config.num_envs=1_024", "--config.lr=1e-3")
    assert done.returncode == 0, done.stderr
    config = from_json(done.stdout)
    assert (config.num_envs, config.lr, config.time_limit_minutes) == (1024, 1e-3, 3.0)


def test_none_takes_away_what_a_file_or_an_earlier_flag_sets() -> None:
    done = launch(
        "--config=configs/cpu.py", "--config.time_limit_minutes=None",
        "--config.run_name=abc", "--config.run_name=None", "--config.num_envs=None",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    config = from_json(done.stdout)
    assert (config.time_limit_minutes, config.run_name, config.num_envs) == (None, None, 64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config.num_env=3"], "num_env is not a setting: did you mean num_envs?"),
        (["--config=configs/cpu.py", "--config.ent_coeff=3"], "did you mean ent_coef?"),
        (["--config.learning_rate=3"], "did you mean lr?"),
        (["--config.nonsense"], "not a setting: did you mean seed or num_envs or channels?"),
        (
            ["--config.xyzzy=3"],
            "xyzzy is not a setting: configs/default.py lists all settings; set",
        ),
        (["--config.num_envs=1e6"], "give a whole number, like 1_000_000"),
        (["--config.lr=fast"], "--config.lr=fast: give a number, like 0.5 or 1e-3"),
        (["--config.anneal_lr=maybe"], "--config.anneal_lr=maybe: give True or False"),
        ([f"--config={'x' * 300}.py"], "x.py cannot be read: "),
        (["--config=nowhere.py"], "nowhere.py cannot be read: No such file or directory"),
        (["--config=nowhere.py", "--config.lr=1"], "cannot be read: No such file or directory"),
        (["--config=configs/cpu.py:large"], "calls get_config('large'), but: too many positional"),
        (["--config=recipe.py", "--config.lr=1"], "did you mean configs/recipe.py?"),
        (["--config=configs/__init__.py"], "configs/__init__.py has no get_config()"),
        (["--confg=configs/cpu.py"], "Unknown command line flag 'confg'"),
        (["--config.network.hidden_dim=64"], "are not nested: use --config.hidden_dim=64"),
        (["--config.hidden_dim.x=1"], "settings are not nested: use --config.hidden_dim=1"),
        (
            ["--config.lr=1", "--config=configs/cpu.py"],
            "put --config=FILE before --config.lr=1",
        ),
        (
            ["--config=configs/conv.py", "--config=configs/cpu.py", "--config.lr=1"],
            "give --config=FILE only once, before --config.lr",
        ),
        (["--config.hidden-dim=64"], "hidden-dim is not a setting: did you mean hidden_dim?"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_mistake_on_the_command_line_is_reported_in_one_line(
    arguments: list[str], words: str
) -> None:
    done = launch(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("launch.little: ")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_settings_that_a_file_leaves_out_have_their_defaults_which_flags_may_change(
    tmp_path: Path,
) -> None:
    (tmp_path / "few.py").write_text("def get_config():\n    return {'gamma': 0.5, 'lr': 1}\n")
    done = launch(f"--config={tmp_path / 'few.py'}", "--config.ent_coef=0.2", "--config.lr=2e-3")
    config = from_json(done.stdout)
    assert (config.gamma, config.ent_coef, config.lr) == (0.5, 0.2, 2e-3), done.stderr
    assert (config.network, config.num_envs) == ("mlp", 64)


def test_a_flag_cannot_set_what_a_file_sets_to_none_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("def get_config():\n    return {'warmth': None}\n")
    done = launch(f"--config={tmp_path / 'none.py'}", "--config.warmth=0.5")
    assert done.stderr.startswith(
        "launch.little: the configuration file sets config.warmth to None"
    )


def test_a_program_may_be_started_in_any_folder(tmp_path: Path) -> None:
    done = launch("--config=configs/cpu.py", "--config.num_envs=128", where=tmp_path)
    config = from_json(done.stdout)
    assert (config.num_envs, config.time_limit_minutes) == (128, 3.0), done.stderr


def test_wrong_values_on_the_command_line_are_all_listed() -> None:
    done = launch(
        "--config.lr=-1", "--config.gamma=nan", "--config.save_interval=7", "--config.seed=None"
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 4, done.stderr
