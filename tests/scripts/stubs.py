"""Programs that stand in for gcloud, sleep, uv and the like: they note how they were called."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
_END_OF_WORD, _END_OF_CALL = "\x1f", "\x1e"


class Stubs:
    """A directory of stand-ins, the first on the PATH of the scripts that are run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "bin"
        self.directory.mkdir()
        self.home = directory / "home"
        self.home.mkdir()
        self._notes = directory / "calls"
        self.environment = {
            "PATH": f"{self.directory}:/usr/bin:/bin",
            "HOME": str(self.home),
            "HOSTNAME": "t1v-n-5f3e-w-0",
            "TPU_ROOT": str(directory),  # no TPU of this machine is looked at
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def add(self, name: str, body: str = "exit 0") -> Path:
        """A program of that name, which notes its words and then does what the body says."""
        path = self.directory / name
        path.write_text(
            "#!/usr/bin/env bash\n"
            f"{{ printf '%s\\x1f' {name} \"$@\"; printf '\\x1e'; }} >>'{self._notes}'\n{body}\n"
        )
        path.chmod(0o755)
        return path

    def calls(self, *names: str) -> list[list[str]]:
        """Each call so far of these programs, or of all, as the words it was made of."""
        text = self._notes.read_text() if self._notes.exists() else ""
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
    """~/hackmatrix, as on a worker: a repository with our scripts, settings and pins, committed."""
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


def set_up_by(checkout: Path, script: str) -> None:
    """Its workers are set up by that script, committed, from now on."""
    (checkout / "scripts/tpu_setup.sh").write_text(script)
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-qam", "b"], check=True)
