"""Programs write to the files that flags name and to a terminal, and read from a terminal."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from absl import flags

from launch.startup import command_line, ending, outputs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[flags.FlagHolder[Path | None]]:
    """A program's flag --page."""
    monkeypatch.setattr(ending, "end_quietly", lambda program: None)
    yield outputs.define("page", "A page.")
    delattr(flags.FLAGS, "page")


def parse(*arguments: str) -> None:
    command_line.parser("launch.tea")(["tea", *arguments])


def test_a_tilde_stands_for_the_home_directory(
    page: flags.FlagHolder[Path | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    parse("--page=~/tea.html")
    assert page.value == tmp_path / "tea.html"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            "gs://b/tea.html",
            "gs://b/tea.html is not a local path: write to a local path and copy it",
        ),
        ("", "flag --page=: must not be empty"),
    ],
)
def test_an_output_that_is_no_local_path_is_refused_in_one_line(
    page: flags.FlagHolder[Path | None], named: str, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(f"--page={named}")
    assert str(ended.value.code).startswith(f"launch.tea: {message}")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # the latter in the C locale
def test_characters_that_a_terminal_cannot_show_are_question_marks(
    page: flags.FlagHolder[Path | None], monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", errors))
    parse()
    print("hp 3 \u2192 2", flush=True)
    assert written.getvalue() == b"hp 3 ? 2\n"


def test_a_dangling_link_stays_a_link(page: flags.FlagHolder[Path | None], tmp_path: Path) -> None:
    link = tmp_path / "tea.html"
    link.symlink_to(tmp_path / "kettle.html")
    parse(f"--page={link}")
    outputs.check("launch.tea", page)
    assert link.is_symlink()
    assert list(tmp_path.iterdir()) == [link]


def test_a_file_name_that_is_too_long_is_refused_in_one_line(
    page: flags.FlagHolder[Path | None], tmp_path: Path
) -> None:
    parse(f"--page={tmp_path}/{'x' * 300}.html")
    with pytest.raises(SystemExit, match="File name too long; choose another --page"):
        outputs.check("launch.tea", page)


def test_a_working_directory_that_was_deleted_is_reported_in_one_line(
    page: flags.FlagHolder[Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    parse("--page=tea.html")
    with pytest.raises(SystemExit, match=r"tea\.html: No such file or directory; choose another"):
        outputs.check("launch.tea", page)


def test_a_pipe_may_be_an_output_and_is_not_touched_before_it_is_written(
    page: flags.FlagHolder[Path | None], tmp_path: Path
) -> None:
    for pipe in (tmp_path / "pipe", tmp_path / "other"):
        os.mkfifo(pipe)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    closed = os.open(tmp_path / "other", os.O_RDONLY | os.O_NONBLOCK)
    noticed = select.poll()
    noticed.register(closed)
    try:
        parse(f"--page={tmp_path / 'other'}")
        outputs.check("launch.tea", page)
        assert noticed.poll(0) == []
        parse(f"--page=/dev/fd/{writer}")
        outputs.check("launch.tea", page)
        assert page.value
        outputs.write("launch.tea", page.value, b"tea", page)
        assert os.read(reader, 9) == b"tea"
    finally:
        for each in (reader, writer, closed):
            os.close(each)


def test_a_full_standard_output_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        message = "launch.tea: cannot write to standard output: No space left on device"
        with pytest.raises(SystemExit, match=message), outputs.printing("launch.tea"):
            print("tea")
        with pytest.raises(BrokenPipeError), outputs.printing("launch.tea"):
            raise BrokenPipeError
    monkeypatch.setattr(sys, "stdout", None)
    with outputs.printing("launch.tea"):
        print("tea")


def test_help_for_a_full_device_is_reported_in_one_line() -> None:
    asked = [sys.executable, "-m", "launch.drive", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(asked, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "launch.drive: cannot write to standard output: No space left on device\n"
    )


def test_typed_commands_may_contain_any_bytes() -> None:
    code = "from launch import play; print(ascii(list(play._lines())))"
    typed = b"save caf\xe9\n"  # as Latin-1 encodes it
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        input=typed,
        capture_output=True,
    )
    assert done.stdout == b"> > ['save caf\\udce9\\n']\n"


def test_watch_reports_that_it_draws_a_gif_and_that_its_output_is_full(tmp_path: Path) -> None:
    code = """
import sys
from types import SimpleNamespace
from launch import watch
game = SimpleNamespace(film=bytes, turns=3, total=1.5, episode=None)
agent = SimpleNamespace(watch=lambda *_, **more: game)
watch.policy_flags.load = lambda _: agent
watch._show = lambda _: print("a board")
watch.policy_flags.parser("launch.watch")(sys.argv)
watch.main([])
"""
    film = tmp_path / "film.gif"
    with Path("/dev/full").open("w") as full:
        drawn, lost, shown = (
            subprocess.Popen(
                [sys.executable, "-c", code, *given], cwd=ROOT, stdout=out, stderr=-1, text=True
            )
            for given, out in (
                ([f"--gif={film}"], subprocess.PIPE),
                ([f"--gif={film}-2"], full),
                ([], full),
            )
        )
        printed, errors = drawn.communicate(timeout=100)
        assert printed == f"{film}: 3 turns, return 1.50\n"
        assert "launch.watch: drawing the GIF ..." in errors.splitlines()
        for each in (lost, shown):
            _, errors = each.communicate(timeout=100)
            last = errors.splitlines()[-1]
            assert last == "launch.watch: cannot write to standard output: No space left on device"
            assert each.returncode == 1


PRINTING = {
    "evaluate": """
results = SimpleNamespace(as_json=dict)
program.policy_flags.load = lambda _: SimpleNamespace(evaluate=lambda *_, **more: results)
program.policy_flags.parser("launch.evaluate")(["evaluate", "--json"])
program.main([])
""",
    "report": "program._write(Path(os.devnull), '', 'a page')",
    "bench": "program._print('a rate')",
}


def test_programs_whose_results_cannot_be_written_say_so_in_one_line() -> None:
    head = "import os; from pathlib import Path; from types import SimpleNamespace"
    with Path("/dev/full").open("w") as full:
        started = {
            name: subprocess.Popen(
                [sys.executable, "-c", f"{head}; from launch import {name} as program\n{code}"],
                cwd=ROOT, stdout=full, stderr=-1, text=True,
            )
            for name, code in PRINTING.items()
        }  # fmt: skip
        for name, program in started.items():
            _, errors = program.communicate(timeout=100)
            message = f"launch.{name}: cannot write to standard output: No space left on device"
            assert errors.splitlines()[-1] == message
            assert program.returncode == 1


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGHUP])
def test_temporary_files_are_removed_after_termination(ends: int) -> None:
    program = (
        "import atexit, signal; from launch.startup import ending\n"
        "atexit.register(print, 'removed'); ending.exit_when_terminated()\n"
        f"signal.raise_signal({ends})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (128 + ends, "removed\n")


def test_standard_output_is_recognised_by_any_of_its_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("tea", "kettle"):
        (tmp_path / name).touch()
    with (tmp_path / "tea").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert outputs.is_standard_output(Path(f"/dev/fd/{out.fileno()}"))
        assert not outputs.is_standard_output(tmp_path / "kettle")


def test_two_outputs_are_not_written_into_one_file(
    page: flags.FlagHolder[Path | None], tmp_path: Path
) -> None:
    film = outputs.define("film", "A film.")
    (tmp_path / "link").symlink_to(tmp_path / "tea")
    parse(f"--page={tmp_path / 'tea'}", f"--film={tmp_path / 'link'}")
    try:
        with pytest.raises(SystemExit, match=r"tea: --page and --film name the same file, .*/tea;"):
            outputs.check("launch.tea", page, film)
    finally:
        delattr(flags.FLAGS, "film")
    assert not (tmp_path / "tea").exists()
