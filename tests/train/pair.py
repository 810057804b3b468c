"""Runs a test's program in two processes that connect over a real socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Ended:
    """How a process ended: the JSON that it printed last, its exit code and its stderr."""

    result: Any
    code: int
    errors: str


def ended(program: Path, *arguments: str) -> list[Ended]:
    """Runs both processes with PORT PROCESS and the arguments; returns how each ended."""
    port = str(free_port())
    children = [
        subprocess.Popen(
            [sys.executable, str(program), port, str(process), *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"]))},
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
    assert all(output for output, _ in outputs), [errors for _, errors in outputs]
    return [  # gloo prints other lines first
        Ended(json.loads(output.splitlines()[-1]), child.returncode, errors)
        for child, (output, errors) in zip(children, outputs, strict=True)
    ]


def results(program: Path, directory: Path) -> list[dict[str, Any]]:
    """Returns the JSON that each process printed last; asserts that neither had a traceback."""
    both = ended(program, str(directory))
    for each in both:
        assert "Traceback" not in each.errors, each.errors
    return [each.result for each in both]
