"""The headless protocol, spoken with the real program over pipes."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from hackmatrix.envs.headless import LONGEST_LINE, Session
from tests.envs.headless import recordings
from tests.envs.headless.client import ROOT, Client

SEED = 5
STEPS = 500


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A program shared by the tests that do not end it: a start takes seconds."""
    with Client("--headless-cli", f"--seed={SEED}", "--info") as program:
        yield program


def test_random_play_is_answered_as_by_a_session_in_this_process(client: Client) -> None:
    session, rng, seconds = Session(SEED), random.Random(0), []
    command = {"action": "reset"}
    for _ in range(STEPS):
        began = time.perf_counter()
        answer = client.ask(command)
        seconds.append(time.perf_counter() - began)
        assert answer == json.loads(session.answer(json.dumps(command).encode()))
        valid = client.ask({"action": "getValidActions"})["validActions"]
        assert valid == json.loads(session.answer(b'{"action":"getValidActions"}'))["validActions"]
        is_over = answer.get("done") or not valid
        command = (
            {"action": "reset"} if is_over else {"action": "step", "actionIndex": rng.choice(valid)}
        )
    # An answer takes a few milliseconds; far more means that the program still compiles.
    assert statistics.median(seconds) < 0.1


def test_recorded_deterministic_sessions_are_answered_as_recorded(client: Client) -> None:
    sessions = [session for session in recordings.read() if session.is_deterministic]
    assert len(sessions) == 151
    wrong = []
    for session in sessions:
        for command, recorded in session.exchanges:
            if isinstance(command, str):
                client.send(command.encode() + b"\n")
                answer = client.answer()
            else:
                answer = client.ask(command)
            wrong += [
                f"{session.name}{fault}" for fault in recordings.differences(answer, recorded)
            ]
    assert wrong == []


def test_recorded_random_sessions_are_answered_in_the_recorded_shape(client: Client) -> None:
    sessions = recordings.read()
    grammar = recordings.Grammar(
        answer for session in sessions for _, answer in session.exchanges if "error" not in answer
    )
    wrong, rng = [], random.Random(1)
    for session in sessions:
        if session.is_deterministic:
            continue
        valid: list[int] = []
        for command, recorded in session.exchanges:
            if command["action"] == "step" and command["actionIndex"] not in valid:
                command = {"action": "step", "actionIndex": rng.choice(valid)}
            answer = client.ask(command)
            valid = answer.get("validActions", valid)
            assert set(answer) == set(recorded)
            wrong += [f"{session.name}{fault}" for fault in grammar.faults(answer)]
            if answer.get("done"):
                break
    assert wrong == []


def test_the_program_survives_garbage_and_continues_the_same_game(client: Client) -> None:
    before = [client.ask({"action": "reset"})["observation"]]
    garbage = [
        b"\x00\xff\xfe\xfd", b'{"action":', b"[" * 100_000, b'{"action":"step","actionIndex":28}',
        b'{"action":"step","actionIndex":-1}', b'{"action":"setState","state":{"player":{}}}',
        b"9" * 10_000, b'{"action":"step","actionIndex":NaN}', b"x" * (3 * LONGEST_LINE + 7),
        b'{"action":null}', b'{"action":["reset"]}', b"null", b"\xe2\x80\xa8", b"{}" * 1000,
    ]  # fmt: skip
    for line in garbage:
        client.send(line + b"\n")
        answer = client.answer()
        assert list(answer) == ["error"], answer
        assert len(answer["error"]) < 400
    client.send(b'{"action":')  # the rest of this line comes later
    client.send(b'"getActionSpace"}\r\n{"action":"getValidActions"}\n')
    assert client.answer() == {"actionSpaceSize": 28}
    valid = client.answer()["validActions"]
    after = client.ask({"action": "step", "actionIndex": valid[0]})
    assert after["observation"] != before[0]
    assert not after["info"].get("invalid_action")


def test_the_program_soon_reports_that_it_loads_and_exits_when_its_input_ends() -> None:
    began = time.monotonic()
    with Client("--headless-cli", "--info") as client:
        while not client.errors():
            time.sleep(0.05)
        assert time.monotonic() - began < 3
        client.send(b'{"action":"getActionSpace"}')  # without an end of line
        assert client.end() == 0
        assert client.answer() == {"actionSpaceSize": 28}
        assert client.program.stdout
        assert client.program.stdout.read() == b""
        lines = client.errors().splitlines()
        assert lines[0] == "launch.serve: loading JAX and the game ..."
        assert "end of input" in lines[-1]


def test_another_start_gives_advice_and_does_not_trace_the_game_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask({"action": "reset"})
    monkeypatch.setenv("JAX_LOG_COMPILES", "1")
    with Client("--headless-cli", "--seed=3", "--policy=policies/conv") as another:
        another.ask({"action": "reset"})
        advice = another.ask({"action": "getAdvice"})
        valid = another.ask({"action": "getValidActions"})["validActions"]
        assert "Finished tracing" in another.errors()  # so it logs what it traces
        assert "_turn" not in another.errors()
    assert {*np.flatnonzero(advice["probabilities"])} <= {*valid}
    assert advice["actionIndex"] == int(np.argmax(advice["probabilities"]))


def test_a_closed_pipe_ends_the_program_without_an_error() -> None:
    with Client("--headless-cli") as client:
        assert client.program.stdout
        client.program.stdout.close()
        client.send(b'{"action":"getActionSpace"}\n' * 3)
        assert client.program.wait() == 0
        lines = client.errors().splitlines()
        assert all(line.startswith("launch.serve: ") for line in lines), lines


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "use --headless-cli"),
        (["--headless-cli", "now"], "'now' is not a flag"),
        (["--headless-cli", "--colour"], "colour"),
        (["--headless-cli", "--seed=-1"], "seed"),
    ],
)
def test_a_mistake_on_the_command_line_is_reported_in_one_line(
    flags: list[str], complaint: str
) -> None:
    program = subprocess.run(
        [sys.executable, "-m", "launch.serve", *flags], cwd=ROOT, capture_output=True, text=True
    )
    assert program.returncode == 1
    assert complaint in program.stderr
    assert program.stderr.count("\n") == 1
    assert program.stdout == ""
