"""Interrupts of a run in a program that continues after it."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from hackmatrix.train.guards.interrupts import Interrupts


def test_the_first_interrupt_asks_the_run_to_stop_and_the_second_is_raised() -> None:
    messages: list[str] = []
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    with interrupts.noted(messages.append):
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked_to_stop
        assert messages == [
            "Interrupted: saving and stopping; interrupt again to stop at once, without saving"
        ]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_an_interrupt_while_a_line_is_printed_still_asks_the_run_to_stop() -> None:
    def say(_: str) -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stdout>'>")

    interrupts = Interrupts()
    with interrupts.noted(say):
        signal.raise_signal(signal.SIGINT)
    assert interrupts.asked_to_stop


def test_the_signal_handlers_of_a_program_are_restored_when_the_run_has_ended() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Interrupts().noted(print):
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) != before[signal.SIGINT]
    assert {number: signal.getsignal(number) for number in before} == before


def test_in_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)

    def handler_within() -> object:
        with Interrupts().noted(print):
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(handler_within).result() == before
