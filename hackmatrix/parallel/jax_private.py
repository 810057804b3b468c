"""What is taken from the private parts of jax, which may change with any version of it."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from jax._src import cloud_tpu_init, clusters, distributed

_POD_OF_INDEXED_JOB = {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"}


def coordination_client() -> Any:
    """The connection to the coordinator, with a key-value store and barriers; None where there is
    one process alone. `jax.experimental.multihost_utils` offers these only through devices.
    """
    return distributed.global_state.client


def process_number() -> int:
    """The number of this process, without asking for devices."""
    return int(distributed.global_state.process_id)


def is_cloud_tpu_vm() -> bool:
    """Whether this is a host of a TPU slice, without asking for devices."""
    return bool(cloud_tpu_init.running_in_cloud_tpu_vm)


def find_cluster() -> Any:
    """What has started this process as one of several, as jax.distributed.initialize finds it; None
    if nothing has. Kubernetes is not asked about a pod that is not one of an indexed Job, nor
    without its package.
    """
    asks_kubernetes = _is_pod_of_indexed_job() and not lacks_kubernetes()
    for each in clusters.ClusterEnv._cluster_types:
        if each is clusters.K8sCluster and not asks_kubernetes:
            continue
        if not each.opt_in_only_method and each.is_env_present():
            return each
    return None


def lacks_kubernetes() -> bool:
    """Whether this is a pod of an indexed Job, but has no package to find the others with."""
    return _is_pod_of_indexed_job() and importlib.util.find_spec("kubernetes") is None


def _is_pod_of_indexed_job() -> bool:
    return os.environ.keys() >= _POD_OF_INDEXED_JOB
