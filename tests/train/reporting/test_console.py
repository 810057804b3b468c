"""The console: its output can be read, even where little can be shown."""

import dataclasses
import io
import math
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO
from unittest.mock import Mock

import pytest

from hackmatrix.envs import make
from hackmatrix.ppo import PPO
from hackmatrix.train.config import Config
from hackmatrix.train.config.summary import summary
from hackmatrix.train.reporting import metric_catalogue
from hackmatrix.train.reporting.console import LINES_A_PAGE, Console
from hackmatrix.train.runs import clock as clocks
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.places import Disk

METRICS = {
    "train/mean_episode_return": 0.526, "train/mean_episode_length": 31.24, "train/entropy": 1.919,
    "train/approx_kl": 0.0214, "stats/completed_stage_1": 0.634, "stats/mean_stage": 1.78,
    "stats/highest_stage": 4.0, "perf/steps_per_second": 12_149.0, "perf/hours_left": 161 / 3600,
}  # fmt: skip
TITLES = "progress steps steps/s left return length stage best stage 1 done entropy KL"
DECLARED = metric_catalogue.metrics(make("hackmatrix"), PPO)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that clocks show, in seconds, as a list that a test may change."""
    seconds = [100.0]
    monkeypatch.setattr(clocks, "time", Mock(monotonic=lambda: seconds[0]))
    return seconds


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A pseudo-terminal: the file to print to, and the descriptor to read the output from."""
    screen, inside = os.openpty()
    with os.fdopen(inside, "w") as out:
        yield out, screen
    os.close(screen)


def words(line: str) -> str:
    return " ".join(line.split())


def read(screen: int, lines: int = 2) -> str:
    """Reads so many lines, which may arrive in pieces."""
    shown = b""
    while shown.count(b"\n") < lines:
        shown += os.read(screen, 1 << 16)
    return shown.decode()


def test_a_chunk_is_a_line_under_titles(out: io.StringIO, config: Config) -> None:
    Console(config, DECLARED, out).write(config.num_updates // 2 * config.batch_size, METRICS)
    titles, line = out.getvalue().splitlines()
    assert words(titles) == TITLES
    assert words(line) == "━━━──── 50% 5.00M 12.1k 2m 41s +0.53 31.2 1.78 4 63% 1.92 0.021"
    assert len(titles) == len(line) <= 100


def test_titles_are_repeated_on_every_page(out: io.StringIO, config: Config) -> None:
    console = Console(config, DECLARED, out)
    for chunk in range(2 * LINES_A_PAGE):
        console.write(chunk, METRICS)
    titles = [i for i, line in enumerate(out.getvalue().splitlines()) if "steps/s" in line]
    assert titles == [0, LINES_A_PAGE + 1]


def test_a_metric_without_data_is_a_dash(out: io.StringIO, config: Config) -> None:
    Console(config, DECLARED, out).write(4096, METRICS | {"train/mean_episode_return": math.nan})
    assert out.getvalue().splitlines()[1].split()[6] == "-"


def test_an_environment_without_stages_has_no_columns_for_them(
    out: io.StringIO, config: Config
) -> None:
    console = Console(config, DECLARED, out)
    plain = {tag: value for tag, value in METRICS.items() if not tag.startswith("stats/")}
    console.write(4096, plain)
    console.write(8192, METRICS)
    titles, first, second = out.getvalue().splitlines()
    assert words(titles) == "progress steps steps/s left return length entropy KL"
    assert len(titles) == len(first) == len(second)


@pytest.mark.parametrize("highest", [8.0, 9.0])
def test_the_stage_after_the_last_is_victory(
    out: io.StringIO, config: Config, highest: float
) -> None:
    Console(config, DECLARED, out).write(4096, METRICS | {"stats/highest_stage": highest})
    assert out.getvalue().splitlines()[1].split()[-4] == ("won" if highest > 8 else "8")


def test_extreme_numbers_stay_in_their_columns(out: io.StringIO, config: Config) -> None:
    console = Console(config, DECLARED, out)
    for value in (0.0, 0.9996, 9.996, 99.96):
        metrics = dict.fromkeys(METRICS, value) | {"stats/completed_stage_1": min(value, 1.0)}
        for steps in (1, 999, 1_000, 999_499, 999_500, 10**9 - 1, 10**12, 10**15, 2**62):
            console.write(steps, metrics | {"perf/steps_per_second": float(steps)})
    for total in (-999.994, 527.4, 999.994, 1234.5, 99_999):
        console.write(0, METRICS | {"train/mean_episode_return": total})
    lines = out.getvalue().splitlines()
    assert {len(line) for line in lines} == {len(lines[0])}


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        (0, "0"), (999, "999"), (1_000, "1.00k"), (12_149, "12.1k"), (99_960, "100k"),
        (999_499, "999k"), (999_500, "1.00M"), (5_238_784, "5.24M"), (2 * 10**9, "2.00G"),
        (2 * 10**12, "2.00T"), (2 * 10**15, "2.00P"), (2**62, "4610P"),
    ],
)  # fmt: skip
def test_large_numbers_are_rounded_to_three_digits(
    out: io.StringIO, config: Config, steps: int, shown: str
) -> None:
    Console(config, DECLARED, out).write(steps, {})
    assert out.getvalue().split()[-1] == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(59, "59s"), (3599, "59m 59s"), (3950, "1h 05m"), (93_900, "1d 02h"), (math.inf, "-")],
)
def test_the_time_left_is_shown_in_its_two_largest_units(
    out: io.StringIO, config: Config, seconds: float, shown: str
) -> None:
    Console(config, DECLARED, out).write(4096, {"perf/hours_left": seconds / 3600})
    assert out.getvalue().endswith(f"  {shown}\n")


def test_progress_is_that_of_steps_or_of_the_time_limit_whichever_is_further(
    out: io.StringIO, config: Config, now: list[float]
) -> None:
    clock = Clock()
    clock.begin_training(0.0)
    console = Console(dataclasses.replace(config, time_limit_minutes=1.0), DECLARED, out, clock)
    total = config.num_updates * config.batch_size
    for step, left in ((0, 60), (total // 4, 54), (total // 4, 15), (total // 2, 0)):
        now[0] = 160.0 - left
        console.write(step, {**METRICS, "perf/hours_left": left / 3600})
    shares = [line.split()[1] for line in out.getvalue().splitlines()[1:]]
    assert shares == ["0%", "25%", "75%", "100%"]


@pytest.mark.parametrize(("seconds", "share"), [(0.0, "10%"), (90.0, "60%")])
def test_progress_toward_a_time_limit_counts_training_in_this_and_earlier_sessions(
    out: io.StringIO, config: Config, now: list[float], seconds: float, share: str
) -> None:
    clock = Clock()
    limited = dataclasses.replace(config, time_limit_minutes=3.0)
    console = Console(limited, DECLARED, out, clock)
    now[0] += 60  # to compile
    clock.begin_training(seconds)
    now[0] += 18
    total = config.num_updates * config.batch_size
    console.write(total // 50, METRICS | {"perf/hours_left": 30 / 3600})
    assert out.getvalue().splitlines()[1].split()[1] == share


def test_the_head_is_the_summary_under_a_title(out: io.StringIO, config: Config) -> None:
    lines = summary(config, "cpu", 1, 473_373)
    Console(config, DECLARED, out).head("a-run", lines)
    assert out.getvalue().splitlines() == ["a-run", *(f"  {line}" for line in lines), ""]


def test_the_end_shows_what_was_reached_and_where_the_run_is(
    out: io.StringIO, config: Config, now: list[float]
) -> None:
    console = Console(config, DECLARED, out)
    console.write(4096, METRICS | {"train/mean_episode_length": math.nan})
    now[0] += 125
    console.end("Stopped", 4096, Disk(Path("runs/a-run")), goes_on=True)
    assert [words(line) for line in out.getvalue().splitlines()[-6:]] == [
        "Stopped at step 4,096, after 2m 05s",
        "last chunk return +0.53, stage 1.78, best 4, stage 1 done 63%, entropy 1.92, KL 0.021",
        "run runs/a-run",
        "resume python -m launch.train --resume=runs/a-run",
        "report python -m launch.report --run=runs/a-run",
        "TensorBoard tensorboard --logdir=runs",
    ]


def test_a_path_with_a_blank_is_quoted_for_the_shell(out: io.StringIO, config: Config) -> None:
    Console(config, DECLARED, out).end("Stopped", 1, Disk(Path("my runs/a")), goes_on=True)
    commands = [shlex.split(words(line)) for line in out.getvalue().splitlines()[-3:]]
    assert [command[-1] for command in commands] == [
        "--resume=my runs/a",
        "--run=my runs/a",
        "--logdir=my runs",
    ]


@pytest.mark.parametrize(
    ("encoding", "errors", "name", "printed"),
    [
        ("ascii", "strict", "caf\xe9", b"caf?"),
        ("utf-8", "surrogateescape", "caf\udce9", b"caf\xe9"),  # as in the C locale
    ],
)
def test_letters_that_the_output_cannot_show_are_replaced(
    config: Config, encoding: str, errors: str, name: str, printed: bytes
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding, errors)
    Console(config, DECLARED, out).say(name)
    assert out.buffer.getvalue() == b"  " + printed + b"\n"


def test_a_run_that_ended_before_its_first_chunk_prints_an_end_too(
    out: io.StringIO, config: Config
) -> None:
    Console(config, DECLARED, out).end("Stopped", 12_800, Disk(Path("runs/a-run")))
    assert "Stopped at step 12,800" in out.getvalue()
    assert "last chunk" not in out.getvalue()
    assert "resume" not in out.getvalue()


def test_a_long_warning_stays_within_the_width(out: io.StringIO, config: Config) -> None:
    Console(config, DECLARED, out).warn("word " * 60)
    lines = out.getvalue().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 100


def test_a_terminal_gets_colours_and_columns_stay_aligned(
    terminal: tuple[TextIO, int], config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, screen = terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Console(config, DECLARED, out).write(4096, METRICS)
    shown = read(screen)
    assert "\x1b[" in shown
    titles, line = re.sub(r"\x1b\[\d+m", "", shown).splitlines()
    assert len(titles) == len(line)
    monkeypatch.setenv("NO_COLOR", "1")
    Console(config, DECLARED, out).write(4096, METRICS)
    assert "\x1b" not in read(screen)


def test_a_file_gets_no_colours_and_only_ascii_if_its_encoding_has_nothing_else(
    tmp_path: Path, config: Config
) -> None:
    with (tmp_path / "log").open("w", encoding="ascii") as out:
        Console(config, DECLARED, out).write(config.total_timesteps, METRICS)
    text = (tmp_path / "log").read_text()
    assert "#######" in text
    assert "\x1b" not in text


def test_a_closed_pipe_does_not_end_the_run(config: Config) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1, closefd=True) as out:
        console = Console(config, DECLARED, out)
        console.head("a-run", ["line"])
        console.write(4096, METRICS)
        console.end("Done", 4096, Disk(Path("runs/a-run")))
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # for what is still buffered


def test_progress_counts_to_where_a_run_ends_whose_batch_has_changed(
    out: io.StringIO, config: Config
) -> None:
    batch = config.batch_size
    config = dataclasses.replace(config, total_timesteps=4 * batch)
    Console(config, DECLARED, out).write(batch // 2 + 3 * batch, METRICS)
    assert out.getvalue().splitlines()[1].split()[1] == "100%"
