"""The training program compiles for every slice of a TPU pod, and fits."""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from configs import default
from hackmatrix.bench import preflight
from hackmatrix.bench.compiled import Collective, collectives
from hackmatrix.bench.preflight import Preflight, examine
from hackmatrix.parallel import slices

pytest.importorskip("libtpu", reason="libtpu, which compiles for TPUs, is not installed")
pytestmark = pytest.mark.tpu

ROOT = Path(__file__).parents[2]
HLO = """HloModule small, is_scheduled=true

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[]{:T(128)}, f32[8]{0:T(1024)S(3)}) parameter(0)
  %start = f32[8]{0:T(128)S(3)} all-reduce-start(%p), to_apply=%sum
  ROOT %done = f32[8]{0} all-reduce-done(%start)
}

%condition (p: (s32[], f32[8])) -> pred[] {
  ROOT %compare = pred[] compare(%p, %p), direction=LT
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %gathered = (bf16[2,4]{1,0:T(8,128)}, /*index=1*/pred[3]{0}) all-gather(%x), dimensions={0}
  ROOT %while.1 = (s32[], f32[8]{0}) while(%gathered), condition=%condition, body=%body
}
"""
PARAMETERS = 1545 * 256 + 256 + 256 * 256 + 256 + 256 * 28 + 28 + 256 + 1
GIB = 2**30


def examined(name: str) -> Preflight:
    return examine(default.get_config(), name)


@pytest.fixture(scope="module")
def all_slices() -> list[Preflight]:
    """Two at a time: the compiler uses one core, and there are rarely more than two."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return list(pool.map(examined, slices.SLICES))


@pytest.mark.slow
def test_training_fits_every_slice(all_slices: list[Preflight]) -> None:
    for found in all_slices:
        assert found.fits
        assert 0 < found.memory < found.hbm == 32 * GIB
        assert found.num_envs == 512 * found.devices
        assert found.estimated_largest_num_envs > 2 * found.num_envs
    assert [(each.devices, each.hosts) for each in all_slices] == [(4, 1), (8, 2), (16, 4), (32, 8)]


@pytest.mark.slow
def test_a_minibatch_needs_one_reduction_of_its_gradient(all_slices: list[Preflight]) -> None:
    for found in all_slices:
        assert found.collectives == [Collective("all-reduce", 4 * PARAMETERS)]


def test_a_program_that_does_not_fit_is_refused_by_its_size() -> None:
    refusal = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (51.50G) exceeds available HBM (30.75G)."
    )
    assert preflight.memory_refused(refusal) == 51.5 * GIB
    with pytest.raises(preflight.CannotCompile, match="INTERNAL: no idea"):
        preflight.memory_refused("INTERNAL: no idea\nand more")


def test_collectives_belong_to_the_innermost_loop_that_runs_them() -> None:
    assert collectives(HLO) == [
        [Collective("all-gather", 2 * 4 * 2 + 3)],
        [Collective("all-reduce", 4 * 8)],
    ]
    assert preflight.of_a_minibatch(HLO) == [Collective("all-reduce", 4 * 8)]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--slice=v4-9"], "v4-9"),
        (["--slice=v4-8", "--config.num_envs=7"], "num_envs"),
        ([], "slice"),
    ],
    ids=["an unknown slice", "too few environments", "no slice"],
)
def test_what_cannot_be_compiled_is_said_in_the_last_line(
    arguments: list[str], reason: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launch.preflight", *arguments],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert reason in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
