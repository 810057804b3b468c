"""What is used of JAX's private API, which may change with any version."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from jax._src import cloud_tpu_init, clusters, distributed

_POD_OF_INDEXED_JOB = {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"}


def coordination_client() -> Any:
    """Returns the client of the coordinator, with a key-value store and barriers; None for a single
    process. `jax.experimental.multihost_utils` offers these only through devices.
    """
    return distributed.global_state.client


def process_number() -> int:
    """Returns the index of this process, without initialising devices."""
    return int(distributed.global_state.process_id)


def is_cloud_tpu_vm() -> bool:
    """Whether this is a host of a TPU slice, without initialising devices."""
    return bool(cloud_tpu_init.running_in_cloud_tpu_vm)


def find_cluster() -> Any:
    """Returns the cluster environment that started this process as one of several, as found by
    jax.distributed.initialize, or None. Kubernetes is left out where this is no pod of an indexed
    Job, or its package is not installed.
    """
    asks_kubernetes = _is_pod_of_indexed_job() and not lacks_kubernetes()
    for each in clusters.ClusterEnv._cluster_types:
        if each is clusters.K8sCluster and not asks_kubernetes:
            continue
        if not each.opt_in_only_method and each.is_env_present():
            return each
    return None


def lacks_kubernetes() -> bool:
    """Whether this is a pod of an indexed Job, without the package that finds the others."""
    return _is_pod_of_indexed_job() and importlib.util.find_spec("kubernetes") is None


def _is_pod_of_indexed_job() -> bool:
    return os.environ.keys() >= _POD_OF_INDEXED_JOB
