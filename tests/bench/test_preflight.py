"""The training program compiles for slices of TPU pods, and fits."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import jax
import pytest
from jax.sharding import Mesh
from ml_collections import ConfigDict

from configs import default, v4_8, v4_16, v4_32, v4_64
from hackmatrix.bench import compiled, preflight
from hackmatrix.bench.compiled import Collective, Loop, loops
from hackmatrix.bench.preflight import Preflight, examine
from hackmatrix.compile_cache.programs import without_persistent_cache
from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel import slices
from hackmatrix.ppo import PPO
from hackmatrix.train.config.resolve import resolve
from hackmatrix.train.program import Program
from tests.train.settings import config

pytest.importorskip("libtpu", reason="libtpu, which compiles for TPUs, is not installed")
pytestmark = pytest.mark.tpu

ROOT = Path(__file__).parents[2]
HLO = """HloModule small, is_scheduled=true

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[]{:T(128)}, f32[8]{0:T(1024)S(3)}) parameter(0)
  %start = f32[8]{0:T(128)S(3)} all-reduce-start(%p), to_apply=%sum
  %doubled = f32[8]{0} add(%p, %p), backend_config={"estimated_cycles":"500","iteration_bounds":[]}
  ROOT %done = f32[8]{0} all-reduce-done(%start)
}

%condition (p: (s32[], f32[8])) -> pred[] {
  ROOT %compare = pred[] compare(%p, %p), direction=LT
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %gathered = (bf16[2,4]{1,0}, /*index=1*/pred[3]{0}) all-gather(%x), z={"estimated_cycles":"70"}
  ROOT %while.1 = (s32[], f32[8]{0}) while(%gathered), condition=%condition, body=%body
}
"""
GIB = 2**30
SMALL = {"env": "gymnax:CartPole-v1", "num_steps": 8, "num_layers": 1, "hidden_dim": 8}
CARTPOLE = [f"--config.{name}={value}" for name, value in SMALL.items()]
REFUSAL = (
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (51.50G) exceeds available HBM (30.75G)."
)
GRADIENT = 2_352_948  # bytes: float32, of the network in configs/v4_*.py
CYCLES = 400_000  # of a minibatch; about twice as many if single boards are gathered or padded


@pytest.fixture(scope="module")
def largest() -> Preflight:
    """What preflight finds for the largest v4 slice with the slice's own configuration."""
    with without_persistent_cache():
        return examine(v4_64.get_config(), "v4-64")


def expect_room(found: Preflight, devices: int, hosts: int, boards_per_device: int = 1024) -> None:
    assert found.fits
    assert (found.devices, found.hosts) == (devices, hosts)
    assert 0 < found.memory < found.hbm == 32 * GIB
    assert found.num_envs == boards_per_device * found.devices
    assert found.estimated_largest_num_envs > 2 * found.num_envs


def test_training_fits_the_largest_v4_slice(largest: Preflight) -> None:
    expect_room(largest, 32, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "config", "devices", "hosts"),
    [
        ("v4-8", v4_8.get_config(), 4, 1),
        ("v4-16", v4_16.get_config(), 8, 2),
        ("v4-32", v4_32.get_config(), 16, 4),
    ],
)
def test_training_fits_the_smaller_v4_slices(
    name: str, config: ConfigDict, devices: int, hosts: int
) -> None:
    expect_room(examine(config, name), devices, hosts)


@pytest.mark.slow
def test_the_default_settings_fit_too() -> None:
    expect_room(examine(default.get_config(), "v4-64"), 32, 8, boards_per_device=512)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "devices", "hosts", "gibibytes"),
    [
        ("v5e-8", 8, 1, 16),
        ("v5p-16", 8, 2, 96),
        ("v6e-16", 16, 4, 32),
    ],
)
def test_training_compiles_for_newer_chips(
    name: str, devices: int, hosts: int, gibibytes: int
) -> None:
    found = examine({**default.get_config(), **SMALL}, name)
    assert found.fits
    assert (found.devices, found.hosts, found.hbm) == (devices, hosts, gibibytes * GIB)
    assert found.collectives is not None
    assert [each.kind for each in found.collectives] == ["all-reduce"]


def test_a_minibatch_needs_one_all_reduce_of_its_gradient(largest: Preflight) -> None:
    assert largest.collectives == [Collective("all-reduce", GRADIENT)]


def test_boards_are_turned_and_centred_without_moving_each_on_its_own(largest: Preflight) -> None:
    assert largest.cycles is not None
    assert 0 < largest.cycles < CYCLES


def test_the_size_of_a_program_that_does_not_fit_is_read_from_the_error() -> None:
    assert preflight.memory_refused(REFUSAL) == 51.5 * GIB
    with pytest.raises(UserError, match="INTERNAL: no idea"):
        preflight.memory_refused("INTERNAL: no idea\nand more")


@pytest.mark.parametrize("gibibytes", ["108.00", "30.76"])
def test_each_refusal_advises_fewer_environments_until_none_are_left(
    gibibytes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a program is hardly too large: the compiler reports a size that is too low."""
    refused = jax.errors.JaxRuntimeError(REFUSAL.replace("51.50", gibibytes))
    monkeypatch.setattr(compiled, "compile_afresh", Mock(side_effect=refused))
    monkeypatch.setattr(Program, "lower", Mock())
    tried, advised = 0, 64
    while advised:
        tried = advised
        found = examine({**default.get_config(), **SMALL, "num_envs": tried}, "v4-8")
        advised = found.estimated_largest_num_envs
        assert not found.fits
        assert advised <= 0.9 * tried
    assert tried == found.devices
    assert "no environments: try fewer steps" in "\n".join(preflight.lines(found))


def test_the_minibatches_can_share_the_environments_that_are_advised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = jax.errors.JaxRuntimeError(REFUSAL.replace("51.50", "33.33"))
    monkeypatch.setattr(compiled, "compile_afresh", Mock(side_effect=refused))
    monkeypatch.setattr(Program, "lower", Mock())
    raw = {**default.get_config(), **SMALL, "num_envs": 4096, "num_minibatches": 64}
    advised = examine(raw, "v4-8").estimated_largest_num_envs
    assert 3072 <= advised < 4096
    resolve({**raw, "num_envs": advised}, "tpu", 4)


def test_collectives_and_cycles_belong_to_the_innermost_loop_that_runs_them() -> None:
    minibatch = Loop([Collective("all-reduce", 4 * 8)], cycles=500)
    assert loops(HLO) == [
        Loop([Collective("all-gather", 2 * 4 * 2 + 3)], cycles=70),
        minibatch,
    ]
    assert preflight.of_a_minibatch(HLO) == minibatch
    alone = HLO.replace("all-reduce", "add").replace("all-gather", "add")
    assert preflight.of_a_minibatch(alone) == Loop([], cycles=0)


def test_an_asynchronous_collective_counts_once() -> None:
    program = Mock(as_text=lambda: HLO)
    assert compiled.facts(program).collectives == ("all-gather", "all-reduce")


def launched(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launch.preflight", *arguments],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip


def test_a_platform_that_is_not_here_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    done = launched("--slice=v4-8", *CARTPOLE)
    assert "JAX_PLATFORMS=cuda, but JAX finds no such device" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_network_that_is_too_large_does_not_fit() -> None:
    done = launched(
        "--slice=v4-8", *CARTPOLE, "--config.num_layers=2", "--config.hidden_dim=100000"
    )
    assert done.returncode == 1
    printed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert printed["slice"] == "v4-8: 4 devices on 1 host"
    assert printed["verdict"].startswith("does not fit")
    assert "no environments" in done.stdout
    assert "collectives" not in printed


def test_lines_state_the_devices_sizes_memory_collectives_and_verdict(largest: Preflight) -> None:
    text = "\n".join(preflight.lines(largest))
    for words in (
        "v4-64: 32 devices on 8 hosts", "32,768, 1,024 per device",
        "32,768 x 16 = 524,288 samples per update",
        "of the 32 GiB of a chip", f"all-reduce of {GRADIENT:,} bytes per minibatch",
        f"{largest.cycles:,} per minibatch", "compiled in", "fits",
        f"with --config.num_envs={largest.estimated_largest_num_envs} to refine",
    ):  # fmt: skip
        assert words in text


def test_the_findings_can_be_printed_as_json(largest: Preflight) -> None:
    """tests/bench/test_gpu_compile.py has the program print them."""
    found = json.loads(preflight.to_json(largest))
    assert found["collectives"] == [{"kind": "all-reduce", "size": GRADIENT}]
    assert (found["slice"], found["memory"], found["fits"]) == ("v4-64", largest.memory, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--slice=v4-9"], "v4-9"),
        (["--slice=v4-8", "--config.num_envs=7"], "num_envs"),
        ([], "slice"),
        (["--slice=v4-8", *CARTPOLE, "--config.start_from=runs/none"], "no file runs/none"),
        (["--slice=v4-8", "--config.resume=a"], "no run is resumed here"),
    ],
    ids=[
        "an unknown slice",
        "too few environments",
        "no slice",
        "an agent that is not there",
        "a run",
    ],
)
def test_what_cannot_be_compiled_is_reported_in_the_last_line(
    arguments: list[str], reason: str
) -> None:
    done = launched(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert reason in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


class Twice(PPO):
    sections: ClassVar = (*PPO.sections, *PPO.sections)


class Empty(PPO):
    def init(self, key: jax.Array) -> Any:
        learner = super().init(key)
        return learner.replace(params={**learner.params, "none": jax.numpy.zeros((0, 8))})

    def acting(self, learner: Any) -> Any:
        return {"params": learner.params["params"]}


@pytest.mark.parametrize(
    ("algorithm", "reason"), [(Twice, "more than once"), (Empty, "none has no elements")]
)
def test_what_a_run_would_not_begin_with_is_refused(algorithm: type[PPO], reason: str) -> None:
    raw = {**default.get_config(), **SMALL, "algorithm": f"{__name__}:{algorithm.__name__}"}
    with pytest.raises(UserError, match=reason):
        examine(raw, "v4-8")


def test_only_programs_for_cpus_have_functions_that_are_not_inlined() -> None:
    def lowered(mesh: Mesh) -> str:
        given = {"env": "tests.networks.grid:GridWalk", "num_envs": 32, "num_steps": 4}
        return Program(config(**given), mesh).lower().as_text()

    assert "inlineable" in lowered(meshes.over(jax.devices()[:1]))
    assert "inlineable" not in lowered(meshes.over(slices.SLICES["v4-8"].devices()))
