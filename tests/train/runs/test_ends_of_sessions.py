"""The end of a session: its exit code if the bucket is unreachable, and what processes wait for."""

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
    """Trains or resumes a run, and calls `then` after the games of the last evaluation."""

    def run(then: Callable[[], None], supervision: Supervision | None = None, **more: Any) -> int:
        monkeypatch.setattr(Replays, "best", lambda *_: then())
        given = {**GIVEN, **more}
        request = Request({**default.get_config(), **given}, given, place(bucket_address))
        return run_session(request, no_game, supervision)

    return run


@pytest.mark.usefixtures("retries_without_waiting")
def test_a_run_whose_last_files_did_not_reach_its_bucket_exits_with_retry_and_resumes(
    session: Session,
    bucket_address: str,
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If it exited with DONE, its launcher would release the machine that holds the files."""
    evaluation = place(bucket_address) / "run" / "evaluation.json"

    def disconnect() -> None:
        bucket_service.fault = "refuse"

    assert session(disconnect) == RETRY
    bucket_service.fault = None
    assert not evaluation.exists()
    monkeypatch.setattr(Owner, "is_gone", True)  # as if this process had ended
    assert session(lambda: None, resume="run") == DONE
    assert evaluation.exists()


@pytest.mark.usefixtures("retries_without_waiting")
@pytest.mark.parametrize(("fault", "code"), [(None, DONE), ("refuse", RETRY)])
def test_a_signal_during_the_last_replay_exits_by_whether_all_files_were_sent(
    session: Session,
    bucket_service: Service,
    monkeypatch: pytest.MonkeyPatch,
    fault: str | None,
    code: int,
) -> None:
    signals, codes = Signals(), []
    monkeypatch.setattr(guards_signals, "_end", lambda words, code: codes.append(code))

    def disconnect_and_signal() -> None:
        bucket_service.fault = fault
        signals._heed(signal.SIGTERM)
        bucket_service.fault = None

    session(disconnect_and_signal, Supervision(signals))
    assert codes == [code]


def test_a_signal_while_the_last_files_are_sent_exits_with_retry(
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
    signals._heed(signal.SIGTERM)  # after the session
    assert codes == [RETRY, DONE]


def test_processes_wait_until_the_first_one_has_closed_its_sinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX would treat the first process as lost once the others had exited, and abort it."""
    events: list[str] = []
    real_on_first, real_close = ending.on_first, Sinks.close

    def noted_on_first(work: Callable[[], Any]) -> Any:
        events.append("met")
        return real_on_first(work)

    def noted_close(sinks: Sinks) -> None:
        events.append("closed")
        real_close(sinks)

    monkeypatch.setattr(ending, "on_first", noted_on_first)
    monkeypatch.setattr(Sinks, "close", noted_close)
    request = Request({**default.get_config(), **GIVEN}, GIVEN, tmp_path)
    assert run_session(request, no_game) == DONE
    assert events[-2:] == ["closed", "met"]
