"""How processes that train as one find each other, share a machine, and end."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from jax._src.clusters import K8sCluster, OmpiCluster

from hackmatrix.errors import UserError
from hackmatrix.machine import process_space
from hackmatrix.parallel import jax_private, startup
from tests.train.pair import ended

PROGRAM = Path(__file__).with_name("meeting_process.py")
SLURM = {
    "SLURM_JOB_ID": "4711", "SLURM_STEP_NODELIST": "node[003-004]", "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}  # fmt: skip
INDEXED_JOB = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "1"}
LAUNCHER_VARIABLES = (
    *SLURM, *OPEN_MPI, *INDEXED_JOB,
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a process that no launcher has started as one of several."""
    for name in LAUNCHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def set_variables(environment: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)


def test_a_process_without_a_launcher_trains_alone(
    alone: pytest.MonkeyPatch,
) -> None:
    assert startup.initialize_arguments(None) is None


@pytest.mark.parametrize("variables", [SLURM, OPEN_MPI])
def test_jax_finds_processes_that_slurm_and_open_mpi_have_started(
    alone: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    set_variables(alone, variables)
    assert startup.initialize_arguments(None) == {}
    cluster = jax_private.find_cluster()
    assert (cluster.get_process_count(), cluster.get_process_id()) == (4, 3)
    assert cluster.get_local_process_id() == 1  # the GPU that JAX takes


def test_a_process_that_sees_only_one_gpu_takes_it(
    alone: pytest.MonkeyPatch,
) -> None:
    set_variables(alone, {**SLURM, "CUDA_VISIBLE_DEVICES": "6"})
    assert startup.initialize_arguments(None) == {"local_device_ids": [0]}
    alone.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    assert startup.initialize_arguments(None) == {}


@pytest.mark.parametrize(
    ("variables", "size"), [(SLURM, "SLURM_NTASKS"), (OPEN_MPI, "OMPI_COMM_WORLD_SIZE")]
)
def test_a_job_of_one_process_trains_alone(
    alone: pytest.MonkeyPatch, variables: dict[str, str], size: str
) -> None:
    set_variables(alone, {**variables, size: "1"})
    assert startup.initialize_arguments(None) is None


def test_a_kubernetes_pod_outside_of_an_indexed_job_trains_alone(
    alone: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    alone.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert startup.initialize_arguments(None) is None
    assert not recwarn.list


def test_a_pod_of_an_indexed_job_reports_a_missing_kubernetes_package(
    alone: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
    capfd: pytest.CaptureFixture[str],
) -> None:
    set_variables(alone, INDEXED_JOB)
    alone.setitem(sys.modules, "kubernetes", None)
    assert startup.initialize_arguments(None) is None
    errors = capfd.readouterr().err
    assert "an indexed Job, but cannot find the others without the package kubernetes" in errors
    assert errors.endswith("--coordinator, --num_processes and --process_id\n")
    assert not recwarn.list
    assert startup.initialize_arguments(startup.Membership("10.0.0.1:8476", 2, 1))
    assert not capfd.readouterr().err


def test_a_pod_of_an_indexed_job_asks_kubernetes_for_the_others(
    alone: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    set_variables(alone, INDEXED_JOB)
    kubernetes = MagicMock()
    kubernetes.__spec__ = ModuleSpec("kubernetes", None)
    alone.setitem(sys.modules, "kubernetes", kubernetes)
    assert jax_private.find_cluster() is K8sCluster
    kubernetes.config.load_incluster_config.assert_called_once()
    assert not capfd.readouterr().err


def test_a_job_whose_processes_cannot_be_found_is_reported_in_one_line(
    alone: pytest.MonkeyPatch,
) -> None:
    set_variables(alone, {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "many"})
    assert jax_private.find_cluster() is OmpiCluster
    with pytest.raises(UserError, match=r"cannot be found: .*'many'; give --coordinator"):
        startup.initialize_arguments(None)


@pytest.mark.parametrize(
    ("hosts", "own"),
    [
        (["a"], [None]),
        (["a", "b"], [None, None]),
        (["a", "a"], [0, 1]),
        (["a", "b", "a", "b", "c"], [0, 0, 1, 1, None]),
    ],
)
def test_processes_on_one_machine_take_one_gpu_each(
    hosts: list[str], own: list[int | None]
) -> None:
    assert [startup.own_gpu(hosts, process) for process in range(len(hosts))] == own


def test_containers_of_one_machine_have_gpus_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they have the host name of the machine, as when they share its network."""
    own = process_space()
    assert process_space() == own
    monkeypatch.setattr(os, "readlink", lambda _: "pid:[1]")
    assert process_space() != own


def test_two_processes_that_slurm_has_started_meet_without_flags() -> None:
    both = ended(PROGRAM, "slurm")
    assert [each.code for each in both] == [0, 0]
    assert [each.result for each in both] == [
        {"processes": 2, "process": number, "all": ["0", "1"], "gpu": str(number)}
        for number in (0, 1)
    ]


def test_a_process_that_has_failed_for_good_ends_those_that_wait_for_it() -> None:
    """They are given their places, and share the GPUs of their machine too."""
    both = ended(PROGRAM, "failing")
    assert [each.result["gpu"] for each in both] == ["0", "1"]
    assert [each.code for each in both] == [1, 1]
    assert "launch.train: process 1 has failed" in both[0].errors
    assert "has failed" not in both[1].errors
