"""A program that was kept is loaded while other things are done, and found when it is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import serialize_executable

from hackmatrix.compile_cache import programs
from hackmatrix.train.checkpoints.digest import digest

NUMBERS = [np.arange(8, dtype=np.float32)]


@pytest.fixture
def here(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[jax.Device]]:
    """A device for which the program is kept, at another start."""
    devices = jax.local_devices()[:1]
    compiled(devices)
    programs._in_use.clear()
    monkeypatch.setattr(programs, "_prefetched", {})  # runs that ended early may have left some
    yield devices
    assert not programs._prefetched


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which programs are loaded."""
    load, threads = serialize_executable.deserialize_and_load, []

    def noted(*given: Any) -> jax.stages.Compiled:
        threads.append(threading.current_thread().name)
        return load(*given)

    monkeypatch.setattr(serialize_executable, "deserialize_and_load", noted)
    return threads


def compiled(devices: list[jax.Device], lower: Callable[..., Any] | None = None) -> list[int]:
    lower = lower or (lambda: jax.jit(digest).lower(NUMBERS))
    found: list[int] = programs.compiled(lower, digest, devices, bool)(NUMBERS).tolist()
    return found


def test_it_is_loaded_once_and_in_another_thread(here: list[jax.Device], loads: list[str]) -> None:
    programs.prefetch(digest, here)
    assert compiled(here, never) == digest(NUMBERS).tolist()
    assert loads == ["programs"]


def test_what_is_in_use_is_not_prefetched(here: list[jax.Device], loads: list[str]) -> None:
    compiled(here, never)
    programs.prefetch(digest, here)
    assert loads == ["MainThread"]


def test_what_was_damaged_meanwhile_is_compiled(
    here: list[jax.Device], cache: Path, loads: list[str]
) -> None:
    for file in cache.iterdir():
        file.write_bytes(b"damaged")
    programs.prefetch(digest, here)
    assert compiled(here) == digest(NUMBERS).tolist()
    assert not loads


def test_what_has_a_part_from_elsewhere_is_not_prefetched(here: list[jax.Device]) -> None:
    programs.prefetch(lambda: None, here)


def test_what_several_processes_run_together_is_not_prefetched(
    here: list[jax.Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "local_devices", lambda **_: jax.devices()[1:])
    programs.prefetch(digest, here)


def never() -> jax.stages.Lowered:
    raise AssertionError("it is not traced")
