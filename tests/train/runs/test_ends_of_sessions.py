"""The end of a session: its exit code where a bucket is away, and whom it waits for."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs import default
from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.train import ending
from hackmatrix.train.guards import signals as guards_signals
from hackmatrix.train.guards.signals import Signals
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Request
from hackmatrix.train.reporting.replays import Replays
from hackmatrix.train.reporting.sink_list import Sinks
from hackmatrix.train.runs.lease import Owner
from hackmatrix.train.runs.places import place
from hackmatrix.train.session import run_session
from tests.bucket_service import Service
from tests.train.test_evaluator import BATCH, SETTINGS, no_game

GIVEN = {**SETTINGS, "run_name": "run", "total_timesteps": BATCH, "eval_episodes": 4}

Session = Callable[..., int]


@pytest.fixture
def session(bucket_address: str, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Trains, or goes on, and does something once the last games have been played."""

    def run(then: Callable[[], None], supervision: Supervision | None = None, **more: Any) -> int:
        monkeypatch.setattr(Replays, "best", lambda *_: then())
        given = {**GIVEN, **more}
        request = Request({**default.get_config(), **given}, given, place(bucket_address))
        return run_session(request, no_game, supervision)

    return run


@pytest.mark.usefixtures("patient_at_once")
def test_a_run_whose_last_files_are_not_in_its_bucket_is_not_done_and_goes_on(
    session: Session,
    bucket_address: str,
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever started it would take the machine for no longer needed, with the files on it."""
    evaluation = place(bucket_address) / "run" / "evaluation.json"

    def goes_away() -> None:
        bucket_service.fault = "refuse"

    assert session(goes_away) == RETRY
    bucket_service.fault = None
    assert not evaluation.exists()
    monkeypatch.setattr(Owner, "is_gone", True)  # as a process is that has ended
    assert session(lambda: None, resume="run") == DONE
    assert evaluation.exists()


@pytest.mark.usefixtures("patient_at_once")
@pytest.mark.parametrize(("fault", "code"), [(None, DONE), ("refuse", RETRY)])
def test_a_signal_while_the_last_page_is_made_ends_with_what_became_of_the_files(
    session: Session,
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
    fault: str | None,
    code: int,
) -> None:
    signals, codes = Signals(), []
    monkeypatch.setattr(guards_signals, "_end", lambda words, code: codes.append(code))

    def ends() -> None:
        bucket_service.fault = fault
        signals._heed(signal.SIGTERM)
        bucket_service.fault = None

    session(ends, Supervision(signals))
    assert codes == [code]


def test_a_signal_while_the_last_files_are_sent_leaves_something_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals, codes = Signals(), []
    monkeypatch.setattr(guards_signals, "_end", lambda words, code: codes.append(code))
    monkeypatch.setattr(
        "hackmatrix.train.runs.mirror.Mirror.__exit__",
        lambda *_: signals._heed(signal.SIGTERM),
    )
    request = Request({**default.get_config(), **GIVEN}, GIVEN, tmp_path)
    assert run_session(request, no_game, Supervision(signals)) == DONE
    assert codes == [RETRY]
    signals._heed(signal.SIGTERM)  # once all is done
    assert codes == [RETRY, DONE]


def test_processes_wait_for_the_first_one_however_long_it_writes_to_sinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that have ended JAX would take the first one for lost, and abort it."""
    done: list[str] = []
    together, closed = ending.on_first, Sinks.close

    def meets(work: Callable[[], Any]) -> Any:
        done.append("met")
        return together(work)

    def closes(sinks: Sinks) -> None:
        done.append("closed")
        closed(sinks)

    monkeypatch.setattr(ending, "on_first", meets)
    monkeypatch.setattr(Sinks, "close", closes)
    request = Request({**default.get_config(), **GIVEN}, GIVEN, tmp_path)
    assert run_session(request, no_game) == DONE
    assert done[-2:] == ["closed", "met"]
