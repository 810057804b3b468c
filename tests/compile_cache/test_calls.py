"""Programs that call external code, such as LAPACK's for orthogonal parameters: a process crashes
at such a call that has not been made ready.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.compile_cache import calls, programs
from tests.compile_cache.first_parameters import draw

ROOT = Path(__file__).parents[2]


def draw_in_a_process(folder: Path) -> Any:
    given = [str(folder), str(folder / "drawn.json")]
    subprocess.run(
        [sys.executable, "-m", "tests.compile_cache.first_parameters", *given], cwd=ROOT, check=True
    )
    return json.loads((folder / "drawn.json").read_text())


def test_a_program_with_such_calls_is_found_by_a_process_that_has_lowered_none(
    tmp_path: Path,
) -> None:
    (params, was_traced), (again, is_traced) = (draw_in_a_process(tmp_path) for _ in range(2))
    assert was_traced
    assert not is_traced
    assert params == again


def test_names_of_calls_may_be_in_quotes() -> None:
    text = 'stablehlo.custom_call @"my::sum"(%0) stablehlo.custom_call @lapack_sgeqrf_ffi(%1)'
    assert calls.calls_in(text) == {'"my::sum"', "lapack_sgeqrf_ffi"}


@pytest.mark.usefixtures("cache")
def test_a_program_whose_calls_cannot_be_made_ready_is_lowered_at_every_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "_of_decomposition", lambda: frozenset({"lapack_other"}))
    for _ in range(2):
        programs._in_use.clear()
        _, is_traced = draw()
        assert is_traced
