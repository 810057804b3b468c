"""What programs write: into files that are named by flags, and to a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from absl import flags

from launch.startup import command_line, ending, outputs


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[flags.FlagHolder[Path | None]]:
    """The flag --page of a program."""
    monkeypatch.setattr(ending, "is_quiet", lambda program: None)
    yield outputs.define("page", "A page.")
    delattr(flags.FLAGS, "page")


def parse(*arguments: str) -> None:
    command_line.parser("launch.tea")(["tea", *arguments])


def test_a_file_in_the_home_of_the_user_may_be_named_by_a_tilde(
    page: flags.FlagHolder[Path | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    parse("--page=~/tea.html")
    assert page.value == tmp_path / "tea.html"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("gs://b/tea.html", "gs://b/tea.html is on no disk: name a path here, and copy from there"),
        ("", "flag --page=: it names nothing"),
    ],
)
def test_what_is_no_file_of_this_machine_is_refused_in_one_line(
    page: flags.FlagHolder[Path | None], named: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(f"--page={named}")
    assert str(ended.value.code).startswith(f"launch.tea: {said}")


def test_what_a_terminal_has_no_sign_for_is_a_question_mark(
    page: flags.FlagHolder[Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    parse()
    print("hp 3 \u2192 2", flush=True)
    assert written.getvalue() == b"hp 3 ? 2\n"


def test_a_link_that_leads_nowhere_stays_a_link(
    page: flags.FlagHolder[Path | None], tmp_path: Path
) -> None:
    link = tmp_path / "tea.html"
    link.symlink_to(tmp_path / "kettle.html")
    parse(f"--page={link}")
    outputs.check("launch.tea", page)
    assert link.is_symlink()
    assert list(tmp_path.iterdir()) == [link]


def test_a_name_that_no_file_can_have_is_refused_in_one_line(
    page: flags.FlagHolder[Path | None], tmp_path: Path
) -> None:
    parse(f"--page={tmp_path}/{'x' * 300}.html")
    with pytest.raises(SystemExit, match="File name too long; choose another --page"):
        outputs.check("launch.tea", page)


def test_two_outputs_are_not_written_into_one_file(
    page: flags.FlagHolder[Path | None], tmp_path: Path
) -> None:
    film = outputs.define("film", "A film.")
    (tmp_path / "link").symlink_to(tmp_path / "tea")
    parse(f"--page={tmp_path / 'tea'}", f"--film={tmp_path / 'link'}")
    try:
        with pytest.raises(SystemExit, match=r"tea: --page names it, too; choose another --film$"):
            outputs.check("launch.tea", page, film)
    finally:
        delattr(flags.FLAGS, "film")
    assert not (tmp_path / "tea").exists()
