"""Sinks: what they wrote is read back as other programs would read it."""

import dataclasses
import io
import json
import math
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

from hackmatrix.train.config import Config
from hackmatrix.train.reporting import sink_list
from hackmatrix.train.reporting.sink_list import SinkContext, Sinks
from hackmatrix.train.reporting.sinks import JsonLines, TensorBoard, read_lines
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.directory import create, find
from tests.bucket_service import Service
from tests.train.reporting.event_files import events
from tests.train.reporting.pictured_game import PicturedGame
from tests.train.reporting.told_metrics import METRICS, Memory, Scalar, lines, scalars

UNKNOWN = {"train/mean_episode_return": math.nan, "train/total_loss": math.inf}


def test_metrics_are_one_json_object_a_line(tmp_path: Path) -> None:
    with closing(Sinks(JsonLines(tmp_path / "metrics.jsonl"))) as sinks:
        sinks.write(4096, METRICS)
        sinks.write(8192, {"train/entropy": 2.25})
    first, second = lines(tmp_path / "metrics.jsonl")
    assert 0 <= second["time"] - first.pop("time") < 60
    assert first == {"step": 4096, **METRICS}
    assert (second["step"], second["train/entropy"]) == (8192, 2.25)


def test_a_line_is_in_the_file_before_the_next_chunk(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "metrics.jsonl")
    sink.write(1, METRICS)
    assert len(lines(tmp_path / "metrics.jsonl")) == 1
    sink.close()


def test_metrics_without_data_are_left_out(tmp_path: Path) -> None:
    with closing(Sinks(JsonLines(tmp_path / "metrics.jsonl"), TensorBoard(tmp_path))) as sinks:
        sinks.write(1, METRICS | UNKNOWN)
    (line,) = lines(tmp_path / "metrics.jsonl")
    assert line.keys() == {"step", "time", *METRICS}
    assert {each.tag for each in scalars(tmp_path)} == set(METRICS)


@pytest.mark.parametrize(("resumed_at", "steps"), [(None, [1, 2, 3, 9]), (2, [1, 2, 9]), (0, [9])])
def test_a_resumed_run_has_each_step_once(
    tmp_path: Path, resumed_at: int | None, steps: list[int]
) -> None:
    path = tmp_path / "metrics.jsonl"
    for step_before, written in ((None, [1, 2, 3]), (resumed_at, [9])):
        with closing(Sinks(JsonLines(path, step_before))) as sinks:
            for step in written:
                sinks.write(step, METRICS)
    assert [line["step"] for line in lines(path)] == steps
    assert list(tmp_path.iterdir()) == [path]


def test_a_resumed_run_does_not_parse_the_lines_that_it_wrote(tmp_path: Path) -> None:
    """A month of lines takes minutes to parse."""
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {step}, "time": 5}}\n' for step in range(10)))
    with patch("json.loads", side_effect=json.loads) as parse, closing(JsonLines(path, 7)) as sink:
        sink.write(8, METRICS)
    assert parse.call_count == 0
    assert [line["step"] for line in lines(path)] == [*range(9)]


@pytest.mark.parametrize(
    "torn",
    [
        b'{"step": 2, "ti', b"\n", b"7\n", b'{"step": 2, "time": 5}', b'{"step": null}\n',
        b'{"step": 2, "\xff": 1}\n', b"[" * 100_000 + b"\n", b'{"step": Infinity}\n',
        b'{"step": 2, "time": 5, "a{"step": 2, "time": 5}\n', b'{"step": 2, "time": 5\0}\n',
    ],
)  # fmt: skip
def test_a_line_that_a_crash_damaged_is_dropped(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "time": 5}\n' + torn)
    with closing(Sinks(JsonLines(path, 5))) as sinks:
        sinks.write(3, METRICS)
    assert [line["step"] for line in lines(path)] == [1, 3]


def test_a_line_that_is_damaged_in_its_middle_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"step": 1, "time": 5, "a": 2.5}\n{"step": 2, "time": 5, "a" 2}\n{"step": 3, "a": 2}\n'
    )
    assert list(read_lines(path, 0, None)) == [(1, {"a": 2.5}, 5)]


def test_lines_that_a_page_has_are_not_parsed_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {step}, "time": 5}}\n' for step in range(10)))
    with patch("json.loads", side_effect=json.loads) as parse:
        assert [step for step, _, _ in read_lines(path, 6, 8)] == [6, 7, 8]
    assert parse.call_count == 3


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    with closing(Sinks(TensorBoard(tmp_path / "tensorboard"))) as sinks:
        sinks.write(4096, METRICS)
        sinks.write(2**40, {"train/entropy": 2.25})
    assert scalars(tmp_path / "tensorboard") == [
        *(Scalar(4096, tag, value) for tag, value in METRICS.items()),
        Scalar(2**40, "train/entropy", 2.25),
    ]
    assert events(tmp_path / "tensorboard")[0].file_version == "brain.Event:2"


def test_a_new_event_file_is_the_last_although_older_ones_were_deleted(tmp_path: Path) -> None:
    """TensorBoard reads them in the order of their names, and each replaces what came before."""
    for step in range(1, 5):
        before = {*tmp_path.iterdir()}
        with closing(TensorBoard(tmp_path, purge_step=step)) as sink:
            sink.write(step, METRICS)
        (newest,) = {*tmp_path.iterdir()} - before
        assert newest == max(tmp_path.iterdir())
        if step == 3:
            min(tmp_path.iterdir()).unlink()


def test_tensorboard_finds_the_hyperparameters_in_the_folder_of_the_run(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "lr": 3e-4, "num_envs": 64, "network": "conv", "wandb": False, "entity": None,
        "save_interval": 10**20,
    }  # fmt: skip
    with closing(Sinks(TensorBoard(tmp_path, settings=settings))) as sinks:
        sinks.write(1, METRICS)
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []
    (plugin,) = (
        value.metadata.plugin_data
        for event in events(tmp_path)
        for value in event.summary.value
        if value.tag == "_hparams_/session_start_info"
    )
    assert plugin.plugin_name == "hparams"
    hparams = HParamsPluginData.FromString(plugin.content).session_start_info.hparams
    assert {name: getattr(each, each.WhichOneof("kind")) for name, each in hparams.items()} == {
        "lr": 3e-4, "num_envs": 64, "network": "conv", "wandb": False,
        "save_interval": "100000000000000000000",
    }  # fmt: skip
    assert {each.tag for each in scalars(tmp_path)} >= set(METRICS)


def test_tensorboard_shows_some_pictures_of_a_game(tmp_path: Path) -> None:
    memory, game = Memory(), PicturedGame()
    with closing(Sinks(TensorBoard(tmp_path), memory)) as sinks:
        sinks.show_game(4096, game)
    shown = {
        value.tag: value.image.encoded_image_string
        for event in events(tmp_path)
        for value in event.summary.value
        if event.step == 4096
    }
    assert list(shown) == [f"game/{number}" for number in range(1, 7)]
    for encoded, picture in zip(shown.values(), game.pictures(6), strict=True):
        with Image.open(io.BytesIO(encoded)) as image:
            np.testing.assert_array_equal(np.asarray(image), picture)
    assert memory.written == []  # it shows no games


def test_what_tensorboard_needs_is_imported_in_the_background(tmp_path: Path) -> None:
    """Also PyTorch, if it is installed; its stand-in here waits until the other work is done."""
    (tmp_path / "torch.py").write_text(
        "import __main__\n__main__.is_done.wait(5)\nTensor = float\nprint('imported')\n"
    )
    code = """
import threading
from hackmatrix.train.reporting.sinks import load_ahead
is_done = threading.Event()
load_ahead()
print("worked", flush=True)
is_done.set()
"""
    assert printed_by(code, tmp_path) == ["worked", "imported"]


def test_a_failed_import_in_the_background_is_reported_by_the_sink_that_needs_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('a library is missing')\n")
    code = """
import pathlib, threading
from hackmatrix.train.reporting.sink_list import Sinks
from hackmatrix.train.reporting.sinks import TensorBoard, load_ahead
load_ahead()
[each.join() for each in threading.enumerate() if each.name == "tensorboardX"]
Sinks(TensorBoard(pathlib.Path("events"))).write(1, {"train/lr": 1.0})
"""
    (line,) = printed_by(code, tmp_path)
    assert line.startswith("TensorBoard failed; the run goes on")
    assert line.endswith(": a library is missing")


def printed_by(code: str, directory: Path) -> list[str]:
    """Returns the lines that a program prints, with the directory first on its module path."""
    paths = [str(directory), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {paths!r}\n{code}"],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_resumed_run_purges_from_tensorboard_the_steps_that_it_repeats(tmp_path: Path) -> None:
    for purge_step, steps in ((None, [1, 2, 3]), (3, [3, 4]), (None, [5])):
        with closing(Sinks(TensorBoard(tmp_path, purge_step))) as sinks:  # all within a second
            for step in steps:
                sinks.write(step, {"train/entropy": step})
    assert [each.step for each in scalars(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("location", ["tmp_path", "bucket_address"])
def test_tensorboard_reads_the_starts_of_a_run_in_order_whatever_the_clocks_show(
    location: str, request: pytest.FixtureRequest, tmp_path: Path, config: Config
) -> None:
    """Each start of a run in a bucket has its own folder on its machine."""
    workdir = request.getfixturevalue(location)
    create(workdir, dataclasses.replace(config, run_name="run"))
    for start in range(3):
        run = find(workdir, "run")
        assert run
        sink = sink_list._tensorboard(SinkContext(run, 2 * start - 1 if start else None, print))
        with patch("time.time", return_value=1e9 - 3600 * start):
            for step in (2 * start, 2 * start + 1):
                sink.write(step, {"train/lr": 1.0})
                sink.close()  # as after a failure: it opens another file
        if isinstance(run.place, Bucket):
            for file in run.tensorboard.iterdir():
                Bucket(run.lasting(file).address).store(file)
                shutil.copy(file, tmp_path)
    read = tmp_path if location == "bucket_address" else tmp_path / "run/tensorboard"
    assert [each.step for each in scalars(read) if each.tag == "train/lr"] == [*range(6)]


@pytest.mark.usefixtures("retries_without_waiting")
def test_tensorboard_files_are_written_even_if_the_bucket_cannot_be_listed(
    bucket_address: str, bucket_service: Service, config: Config
) -> None:
    run = create(bucket_address, dataclasses.replace(config, run_name="run"))
    with bucket_service.failing("refuse"):
        sink = sink_list._tensorboard(SinkContext(run, 1, print))
        sink.write(2, {"train/lr": 1.0})
        sink.close()
    assert Scalar(2, "train/lr", 1.0) in scalars(run.tensorboard)
