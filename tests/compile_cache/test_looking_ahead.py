"""A cached program is loaded in the background, and found when it is needed."""

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
def devices(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[jax.Device]]:
    """The device for which the program is cached, after a restart."""
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

    def noted_load(*arguments: Any) -> jax.stages.Compiled:
        threads.append(threading.current_thread().name)
        return load(*arguments)

    monkeypatch.setattr(serialize_executable, "deserialize_and_load", noted_load)
    return threads


def compiled(devices: list[jax.Device], lower: Callable[..., Any] | None = None) -> list[int]:
    lower = lower or (lambda: jax.jit(digest).lower(NUMBERS))
    found: list[int] = programs.compiled(lower, digest, devices, bool)(NUMBERS).tolist()
    return found


def test_a_program_is_loaded_once_and_in_another_thread(
    devices: list[jax.Device], loads: list[str]
) -> None:
    programs.prefetch(digest, devices)
    assert compiled(devices, never) == digest(NUMBERS).tolist()
    assert loads == ["programs"]


def test_a_program_in_use_is_not_prefetched(devices: list[jax.Device], loads: list[str]) -> None:
    compiled(devices, never)
    programs.prefetch(digest, devices)
    assert loads == ["MainThread"]


def test_a_program_whose_file_is_damaged_is_compiled(
    devices: list[jax.Device], cache: Path, loads: list[str]
) -> None:
    for file in cache.iterdir():
        file.write_bytes(b"damaged")
    programs.prefetch(digest, devices)
    assert compiled(devices) == digest(NUMBERS).tolist()
    assert not loads


def test_a_program_with_a_foreign_part_is_not_prefetched(devices: list[jax.Device]) -> None:
    programs.prefetch(lambda: None, devices)


def test_a_program_of_several_processes_is_not_prefetched(
    devices: list[jax.Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "local_devices", lambda **_: jax.devices()[1:])
    programs.prefetch(digest, devices)


def never() -> jax.stages.Lowered:
    raise AssertionError("it is not traced")
