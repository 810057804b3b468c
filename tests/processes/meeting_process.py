"""One of two processes that meet, started with PORT PROCESS WAY. Prints what it found as JSON."""

from __future__ import annotations

import json
import os
import sys
import time

port, process, way = sys.argv[1:]
for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS"):
    os.environ.pop(name, None)
if way == "slurm":
    os.environ |= {
        "SLURM_JOB_ID": "4711", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2",
        "SLURM_PROCID": process, "SLURM_LOCALID": process, "JAX_COORDINATOR_PORT": port,
    }  # fmt: skip

import jax  # noqa: E402 (it reads the environment)

from hackmatrix.parallel import startup  # noqa: E402
from hackmatrix.parallel.agreement import gather  # noqa: E402

startup._LISTEN_MS = 200  # so that a process that waits for failures of others has to listen again
given = None if way == "slurm" else startup.Membership(f"127.0.0.1:{port}", 2, int(process))
startup.join(given, program="launch.train", heartbeat_seconds=60, join_seconds=60)
found = {
    "processes": jax.process_count(),
    "process": jax.process_index(),
    "all": gather(process),
    "gpu": jax.config.values["jax_cuda_visible_devices"],
}
print(json.dumps(found), flush=True)
if process == "1":
    time.sleep(1 if way == "failing" else 0)
    startup.exit_together(1 if way == "failing" else 0)
if way == "failing":
    gather("to which the other does not answer")
startup.exit_together(0)
