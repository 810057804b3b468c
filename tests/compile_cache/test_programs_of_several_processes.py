"""A program of several processes is found by all of them, or compiled by all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from hackmatrix.compile_cache import programs
from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.parallel import mesh
from hackmatrix.train.checkpoints.digest import digest


class Process:
    """One of two processes; the second device belongs to the other."""

    def __init__(self, others_agree: bool) -> None:
        self.asked: list[bool] = []
        self._others_agree = others_agree

    def every_process(self, is_so: bool) -> bool:
        self.asked.append(is_so)
        return is_so and self._others_agree


@pytest.fixture
def compiles(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Process | None], bool]:
    """Returns, after a restart of the process, whether it compiles the program for the cache."""
    devices = jax.devices()[:2]
    monkeypatch.setattr(jax, "local_devices", lambda **_: devices[:1])
    state = [jax.device_put(np.arange(8, dtype=np.float32), mesh.split(mesh.over(devices)))]
    expected = digest([np.asarray(each) for each in state]).tolist()
    compiling = Mock(wraps=programs.without_persistent_cache)
    monkeypatch.setattr(programs, "without_persistent_cache", compiling)

    def start(process: Process | None) -> bool:
        programs._in_use.clear()
        compiling.reset_mock()
        agree = process.every_process if process else None
        assert CachedJit(jax.jit(digest), digest, devices, agree)(state).tolist() == expected
        return compiling.called

    return start


def test_a_program_is_found_if_the_other_process_finds_it_too(
    compiles: Callable[[Process], bool],
) -> None:
    assert compiles(Process(others_agree=True))
    process = Process(others_agree=True)
    assert not compiles(process)
    assert process.asked == [True]


def test_a_program_is_compiled_if_one_of_the_processes_has_to_compile_it(
    compiles: Callable[[Process], bool],
) -> None:
    lacks, has = Process(others_agree=True), Process(others_agree=False)
    assert compiles(lacks)
    assert compiles(has)
    assert lacks.asked == [False, False]
    assert has.asked == [True, True]  # as many questions, or one process would wait forever


def test_a_program_is_not_cached_if_the_processes_cannot_agree(
    compiles: Callable[[Process | None], bool], cache: Path
) -> None:
    assert not compiles(None)
    assert not cache.exists()


def test_processes_that_build_the_same_program_have_the_same_name_for_it() -> None:
    def never() -> jax.stages.Lowered:
        raise AssertionError("nothing is traced for it")

    names = [programs.name_of(never, (digest, number)) for number in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


def test_a_program_with_a_foreign_part_is_named_by_its_text() -> None:
    def named(number: int) -> str:
        def own(given: jax.Array) -> jax.Array:
            return given + number

        return programs.name_of(lambda: jax.jit(own).lower(1), own)

    assert named(1) == named(1) != named(2)
