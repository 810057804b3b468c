"""Configuration files, which programs and Python callers read in the same way."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from configs import cpu, default, given_by
from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.train.config import reading, resolve
from hackmatrix.train.config.reading import read, read_whole


def write(folder: Path, ends_with: str) -> Path:
    """Writes a file whose get_config() ends with this text."""
    file = folder / "mine.py"
    file.write_text(f"def get_config(size=1):\n    {ends_with}\n")
    return file


def test_settings_that_a_file_leaves_out_have_their_defaults(tmp_path: Path) -> None:
    whole = read_whole(write(tmp_path, "return {'gamma': 0.5, 'num_envs': 32, 'lr': 1}"))
    config = resolve(whole, "cpu", 1)
    assert (config.gamma, config.num_envs, config.lr) == (0.5, 32, 1.0)
    assert (config.ent_coef, config.num_steps) == (0.15, 64)


def test_settings_may_be_arrays_of_one_number_paths_and_classes(tmp_path: Path) -> None:
    ends_with = (
        "import numpy, pathlib\n"
        "    return {'lr': numpy.float32(0.5), 'num_envs': numpy.asarray(32), "
        "'start_from': pathlib.Path('a/b'), 'network': pathlib.Path}"
    )
    whole = read_whole(write(tmp_path, ends_with))
    assert (whole.lr, whole.num_envs, whole.start_from) == (0.5, 32, "a/b")
    assert whole.network == "pathlib:Path"


def test_settings_of_other_types_are_refused_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        read_whole(write(tmp_path, "return {'lr': {'a': 1}, 'gamma': (1, 2), 'seed': 3}"))
    assert str(refused.value).splitlines() == [
        "lr={'a': 1} must be a number above 0",
        "gamma=(1, 2) must be a number from 0 to 1",
    ]


def test_an_error_of_a_file_is_shown_with_what_its_first_line_announces(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"fails: ValueError: these differ: 1 and 2, mine\.py:2"):
        read_whole(write(tmp_path, r"raise ValueError('these differ:\n\n  1 and 2\nand so on')"))


def test_only_the_settings_that_a_file_sets_count_as_given(tmp_path: Path) -> None:
    whole = read_whole(write(tmp_path, "return {'gamma': 0.5}"))
    assert given_by(whole, default.get_config()) == {"gamma": 0.5}
    assert given_by(read_whole("configs/cpu.py"), default.get_config()) == cpu.get_config().given()


def test_the_argument_after_the_name_of_a_file_is_passed_to_get_config(tmp_path: Path) -> None:
    (tmp_path / "10:30").mkdir()  # a colon in the path begins no argument
    file = write(tmp_path / "10:30", "return {'run_name': size}")
    assert read(f"{file}:large") == {"run_name": "large"}


def test_an_extra_or_missing_argument_of_get_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"default\.py:arg calls get_config\('arg'\), but: too many"
    ):
        read("configs/default.py:arg")
    file = tmp_path / "mine.py"
    file.write_text("def get_config(lr):\n    return {'lr': float(lr)}\n")
    assert read(f"{file}:0.5") == {"lr": 0.5}
    with pytest.raises(UserError, match=r"mine\.py calls get_config\(\), but: missing .* 'lr'; "):
        read(file)
    filled = "from functools import wraps\nget_config = wraps(get_config)(lambda: {'lr': 0.25})\n"
    file.write_text(file.read_text() + filled)
    assert read(file) == {"lr": 0.25}


def test_a_file_in_the_home_of_the_user_may_be_named_by_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, "return {'gamma': 0.5}")
    assert read("~/mine.py") == {"gamma": 0.5}


@pytest.mark.parametrize(
    ("ends_with", "message"),
    [
        (
            "config = {}",
            r"mine\.py returns NoneType instead of settings by name: its get_config\(\) has to end",
        ),
        ("return (", r"mine\.py cannot be read: '\(' was never closed \(mine\.py, line 2\)"),
        ("open('nowhere')", r"mine\.py cannot be read: No such file or directory: 'nowhere'"),
        ("import nothing", r"mine\.py fails: ModuleNotFoundError: No .* 'nothing', mine\.py:2"),
        (
            "return {'lr': 1 / 0}",
            r"mine\.py fails: ZeroDivisionError: division by zero, mine\.py:2",
        ),
        ("return {}\nget_config = None", r"mine\.py has no get_config\(\)"),
        ("return {1: 2}", r"mine\.py returns dict instead of settings by name"),
        ("return {}['X']", r"mine\.py fails: KeyError: 'X', mine\.py:2"),
        (
            "from configs import recipe; recipe.GONE",
            r"fails: AttributeError: module 'configs.recipe' has no attribute 'GONE', mine\.py:2",
        ),
        (
            "from configs import default; default.get_config().lr = 'x'",
            r"mine\.py fails: TypeError: Could not override field 'lr' .*, mine\.py:2",
        ),
        (
            "from configs import default; default.get_config().lrr",
            r"^lrr is not a setting: did you mean lr\?",
        ),
    ],
)
def test_a_file_that_gives_no_settings_is_refused_with_the_reason(
    tmp_path: Path, ends_with: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(write(tmp_path, ends_with))


@pytest.mark.parametrize("named", ["recipe", "recipe.py", "configs/recipe"])
def test_a_name_close_to_that_of_a_shipped_configuration_suggests_it(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"No such file or directory; did you mean configs/recipe\.py"
    ):
        read(named)


@pytest.mark.parametrize("files", [("__init__.py",), ("mine.py",)])
def test_a_package_that_hides_the_trainers_configurations_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    (tmp_path / "configs").mkdir()
    for file in files:
        (tmp_path / "configs" / file).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "configs")
    with pytest.raises(UserError, match=f"^{tmp_path}/configs hides the trainer's configs: rename"):
        read("configs/cpu.py")


class Named:
    """A class that a setting may name."""


def made(width: int, kind: str) -> None:
    """A function that a setting may name."""


def test_the_keywords_of_a_partial_function_are_arguments_of_its_name() -> None:
    given = partial(made, width=4, kind="wide")
    assert reading.plain(given) == f"{__name__}:made(width=4, kind='wide')"
    assert plugins.arguments(reading.plain(given)) == {"width": 4, "kind": "wide"}


def test_a_class_is_refused_if_its_name_means_another_one_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = Named
    assert reading.plain(older) == f"{__name__}:Named"
    monkeypatch.setattr(sys.modules[__name__], "Named", type("Named", (), {}))
    with pytest.raises(UserError, match="is another object than the one given"):
        reading.plain(older)
