"""Fake gcloud, sleep, uv and other programs, which record how they were called."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
_END_OF_WORD, _END_OF_CALL = "\x1f", "\x1e"


class Stubs:
    """A directory of fake programs, first on the PATH of the scripts under test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "bin"
        self.directory.mkdir()
        self.home = directory / "home"
        self.home.mkdir()
        self._record = directory / "calls"
        self.environment = {
            "PATH": f"{self.directory}:/usr/bin:/bin",
            "HOME": str(self.home),
            "HOSTNAME": "t1v-n-5f3e-w-0",
            "TPU_ROOT": str(directory),  # hides the TPUs of this machine
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def add(self, name: str, body: str = "exit 0") -> Path:
        """Adds a program that records its arguments and then runs the body, a Bash script."""
        path = self.directory / name
        path.write_text(
            "#!/usr/bin/env bash\n"
            f"{{ printf '%s\\x1f' {name} \"$@\"; printf '\\x1e'; }} >>'{self._record}'\n{body}\n"
        )
        path.chmod(0o755)
        return path

    def calls(self, *names: str) -> list[list[str]]:
        """Returns the calls so far of these programs, or of all: the name and the arguments."""
        text = self._record.read_text() if self._record.exists() else ""
        calls = [call.split(_END_OF_WORD)[:-1] for call in text.split(_END_OF_CALL)[:-1]]
        return [call for call in calls if not names or call[0] in names]

    def run(
        self, script: Path, *words: str, cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=cwd,
            env=self.environment | more,
        )

    def start(self, script: Path, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [script, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment | more,
        )


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def make_checkout(stubs: Stubs) -> Path:
    """Makes ~/hackmatrix, as on a worker: a repository with our scripts, configs and pins."""
    checkout = stubs.home / "hackmatrix"
    for name in ("scripts", "configs"):
        shutil.copytree(ROOT / name, checkout / name)
    for name in ("pyproject.toml", "constraints.txt", ".gitignore"):
        shutil.copy(ROOT / name, checkout)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["commit", "--quiet", "--message", "all"],
    ):
        subprocess.run([*git, *command], cwd=checkout, check=True, env=stubs.environment)
    return checkout


def commit_setup_script(checkout: Path, script: str) -> None:
    """Commits this script as scripts/tpu_setup.sh, by which workers are then set up."""
    (checkout / "scripts/tpu_setup.sh").write_text(script)
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-qam", "b"], check=True)
