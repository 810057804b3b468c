"""Runs that fail: what is left of them, and whom they wait for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.errors import JaxRuntimeError

from hackmatrix.errors import UserError
from hackmatrix.train import session
from hackmatrix.train.keeper import Keeper
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.progress import Broken
from hackmatrix.train.runs.lease import TakenOver
from hackmatrix.train.runs.places import place
from tests.train.test_yardstick import trained


@pytest.mark.parametrize("where", ["parameters", "compile"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
            "16 environments x 16 steps, or 20 games",
        ),
        (TypeError("of a network of one's own"), "of one's own"),
    ],
)
def test_a_run_that_fails_before_it_has_begun_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, where: str
) -> None:
    def fails(program: Program) -> None:
        raise error

    monkeypatch.setattr(Program, where, fails)
    with pytest.raises(UserError if isinstance(error, JaxRuntimeError) else TypeError, match=said):
        trained(tmp_path, "failing", 0.0)
    assert not list(tmp_path.iterdir())


@pytest.fixture(params=["disk", "bucket"])
def workdir(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Of either kind."""
    return tmp_path if request.param == "disk" else request.getfixturevalue("bucket_address")


def on_this_machine(workdir: Any, name: str) -> Path:
    """The directory of a run that is under way."""
    if isinstance(workdir, Path):
        return workdir / name
    (found,) = Path(tempfile.gettempdir()).glob(f"{name}-{os.getpid()}-*")
    return found


def test_a_run_that_breaks_when_it_has_told_of_itself_stays(
    workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        (on_this_machine(workdir, "broken") / "metrics.jsonl").write_text('{"step": 1}\n')
        raise Broken("a loss is not finite")

    monkeypatch.setattr(session, "train", breaks)
    with pytest.raises(Broken, match="a loss is not finite"):
        trained(workdir, "broken", 0.0)
    assert (place(workdir) / "broken" / "metrics.jsonl").read() == '{"step": 1}\n'
    assert (place(workdir) / "broken" / "config.json").exists()


def test_a_run_that_another_process_has_taken_over_is_left_to_it(
    workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = place(workdir) / "taken" / "owner"

    def stands_still(*_: object) -> None:
        (owner / "2.json").create("{}")
        raise TakenOver("it goes on there")

    monkeypatch.setattr(session, "train", stands_still)
    with pytest.raises(TakenOver):
        trained(workdir, "taken", 0.0)
    assert (owner / "2.json").exists()
    assert (place(workdir) / "taken" / "config.json").exists()


def test_a_process_that_fails_alone_does_not_wait_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may never come to where a checkpoint under way is waited for together."""
    waited: list[Keeper] = []

    def fails(*_: object) -> None:
        monkeypatch.setattr(jax, "process_count", lambda: 2)
        raise RuntimeError("on this process alone")

    monkeypatch.setattr(session, "train", fails)
    monkeypatch.setattr(Keeper, "close", waited.append)
    with pytest.raises(RuntimeError, match="on this process alone"):
        trained(tmp_path, "alone", 0.0)
    assert waited == []
