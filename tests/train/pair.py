"""Two processes of a program of a test, which find each other over a real socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def results(program: Path, directory: Path) -> list[dict[str, Any]]:
    """The JSON that each process prints last, given PORT PROCESS DIRECTORY."""
    port = str(free_port())
    children = [
        subprocess.Popen(
            [sys.executable, str(program), port, str(process), str(directory)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in (0, 1)
    ]
    try:
        outputs = [child.communicate(timeout=SECONDS) for child in children]
    finally:
        for child in children:
            child.kill()
    for _, errors in outputs:
        assert "Traceback" not in errors, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]  # gloo prints before
