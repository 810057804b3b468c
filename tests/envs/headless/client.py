"""A client of the headless protocol that talks to the real program over pipes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PATIENCE = 300  # seconds until a program that hangs is killed


class Client:
    def __init__(self, *flags: str) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self.program = subprocess.Popen(
            [sys.executable, "-m", "launch.serve", *flags],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self._watchdog = threading.Timer(PATIENCE, self.program.kill)
        self._watchdog.start()

    def send(self, text: bytes) -> None:
        assert self.program.stdin
        self.program.stdin.write(text)
        self.program.stdin.flush()

    def answer(self) -> Any:
        assert self.program.stdout
        line = self.program.stdout.readline()
        assert line.endswith(b"\n"), f"no answer, but: {self.errors()}"
        return json.loads(line)

    def ask(self, command: Any) -> Any:
        self.send(json.dumps(command).encode() + b"\n")
        return self.answer()

    def errors(self) -> str:
        """Returns what the program has written to standard error so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode()

    def end(self) -> int:
        """Closes the program's input and returns its exit status."""
        assert self.program.stdin
        self.program.stdin.close()
        return self.program.wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self.program.kill()
        self.program.wait()
        for pipe in (self.program.stdin, self.program.stdout, self._stderr):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
