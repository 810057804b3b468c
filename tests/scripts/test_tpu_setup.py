"""scripts/tpu_setup.sh on a host whose own Python is 3.10, with stand-ins for pip and uv."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts.stubs import Stubs

# pip of the image: `pip install --target DIR uv==VERSION` leaves the uv of the tests in DIR.
IMAGE_PYTHON = """
[[ "$*" == *--no-input*--target* ]] || { echo "Python 3.10.12"; exit 1; }
words=("$@")
for i in "${!words[@]}"; do [[ ${words[i]} == --target ]] && target=${words[i+1]}; done
mkdir -p "$target/bin"
printf '#!/bin/sh\\n[ "$1" = --version ] && echo "uv %s (x)" || exec uv "$@"\\n' \\
  "${words[-1]#uv==}" >"$target/bin/uv"
chmod +x "$target/bin/uv"
"""
# uv: whichever Python an environment is to have, it gets the Python of the tests.
UV = """
if [[ $1 == venv ]]; then
  rm -rf .venv && mkdir -p .venv/bin
  printf '#!/bin/sh\\nexec "{python}" "$@"\\n' >.venv/bin/python && chmod +x .venv/bin/python
fi
"""
# A Python that takes itself for 3.10, and really runs the code that checks its version.
OLD_PYTHON = """
[[ $1 == -c ]] || {{ echo "Python 3.10.12"; exit; }}
exec '{python}' -c 'import sys; sys.version_info = (3, 10, 12); exec(sys.argv.pop(1))' "${{@:2}}"
"""
NOT_NEEDED = ("sudo", "apt-get", "add-apt-repository", "curl")


@pytest.fixture(autouse=True)
def host(stubs: Stubs) -> None:
    stubs.add("python3", IMAGE_PYTHON)
    stubs.add("uv", UV.format(python=sys.executable))
    stubs.add("sleep")
    for name in NOT_NEEDED:
        stubs.add(name, "exit 1")


def set_up(stubs: Stubs, checkout: Path) -> subprocess.CompletedProcess[str]:
    return stubs.run(checkout / "scripts/tpu_setup.sh")


def uv_steps(stubs: Stubs) -> list[str]:
    return [" ".join(call[1:3]) for call in stubs.calls("uv")]


STEPS = ["venv --quiet", "pip install"]


def test_it_takes_python_from_uv_and_packages_from_the_constraints(
    stubs: Stubs, checkout: Path
) -> None:
    assert set_up(stubs, checkout).returncode == 0
    (pip,) = stubs.calls("python3")
    assert pip[-1].startswith("uv==")
    environment, packages = stubs.calls("uv")
    assert environment[1:] == ["venv", "--quiet", "--clear", "--seed", "--python", "3.11", ".venv"]
    assert packages[1:6] == ["pip", "install", "--quiet", "--python", ".venv/bin/python"]
    assert packages[6:] == ["--constraint", "constraints.txt", "--editable", ".[tpu,gcp]"]


def test_it_needs_neither_root_nor_apt(stubs: Stubs, checkout: Path) -> None:
    assert set_up(stubs, checkout).returncode == 0
    assert stubs.calls(*NOT_NEEDED) == []


def test_the_last_line_shows_versions_revision_and_devices(
    stubs: Stubs, checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "dev").mkdir()
    for number in range(4):
        (tmp_path / f"dev/accel{number}").touch()
    last = set_up(stubs, checkout).stdout.splitlines()[-1]
    git = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    revision = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    assert last.startswith(f"t1v-n-5f3e-w-0: Python 3.{sys.version_info.minor}.")
    assert ", jax 0." in last
    assert ", libtpu 0." in last
    assert last.endswith(f", revision {revision}, 4 TPU devices")


def test_newer_tpus_are_counted_too(stubs: Stubs, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "dev/vfio").mkdir(parents=True)
    for name in ("vfio", "0", "1"):
        (tmp_path / f"dev/vfio/{name}").touch()
    assert set_up(stubs, checkout).stdout.endswith(", 2 TPU devices\n")


def test_a_second_run_installs_nothing_and_prints_the_same_last_line(
    stubs: Stubs, checkout: Path
) -> None:
    first = set_up(stubs, checkout)
    steps = len(stubs.calls())
    second = set_up(stubs, checkout)
    assert second.stdout == first.stdout.splitlines()[-1] + "\n"
    assert len(stubs.calls()) == steps


@pytest.mark.parametrize("left", ["exit 127", "[ $1 = --version ]"])
def test_an_environment_that_has_lost_its_python_or_packages_is_recreated(
    stubs: Stubs, checkout: Path, left: str
) -> None:
    first = set_up(stubs, checkout)
    (checkout / ".venv/bin/python").write_text(f"#!/bin/sh\n{left}\n")
    second = set_up(stubs, checkout)
    assert second.returncode == 0
    assert second.stdout == first.stdout
    assert uv_steps(stubs) == STEPS * 2


def test_an_environment_without_its_packages_is_not_called_ready(
    stubs: Stubs, checkout: Path
) -> None:
    loses_them = "[[ $1 != pip ]] || echo 'exit 1' >.venv/bin/python"
    stubs.add("uv", UV.format(python=sys.executable) + loses_them)
    ended = set_up(stubs, checkout)
    assert ended.returncode == 1
    assert "revision" not in ended.stdout


def test_new_pins_are_installed(stubs: Stubs, checkout: Path) -> None:
    set_up(stubs, checkout)
    with (checkout / "constraints.txt").open("a") as constraints:
        constraints.write("six==1.17.0\n")
    set_up(stubs, checkout)
    assert uv_steps(stubs) == STEPS * 2


def test_an_interrupted_set_up_is_repeated(stubs: Stubs, checkout: Path) -> None:
    interrupt = '[[ $1 != pip ]] || kill -KILL "$PPID"\n'
    stubs.add("uv", UV.format(python=sys.executable) + interrupt)
    assert set_up(stubs, checkout).returncode == -9
    stubs.add("uv", UV.format(python=sys.executable))
    assert set_up(stubs, checkout).returncode == 0
    assert uv_steps(stubs) == STEPS * 2


def test_a_new_set_up_that_is_interrupted_does_not_leave_the_old_stamp(
    stubs: Stubs, checkout: Path
) -> None:
    set_up(stubs, checkout)
    pins = (checkout / "constraints.txt").read_text()
    (checkout / "constraints.txt").write_text(pins + "six==1.17.0\n")
    stubs.add("uv", 'kill -KILL "$PPID"')
    assert set_up(stubs, checkout).returncode == -9
    (checkout / "constraints.txt").write_text(pins)
    stubs.add("uv", UV.format(python=sys.executable))
    set_up(stubs, checkout)
    assert uv_steps(stubs)[-2:] == STEPS


def test_a_download_that_fails_is_retried(stubs: Stubs, checkout: Path, tmp_path: Path) -> None:
    fails_twice = f"""
    [[ $1 != pip ]] || (( $(wc -l <'{tmp_path}/tries') == 2 )) ||
      {{ echo >>'{tmp_path}/tries'; exit 1; }}
    """
    (tmp_path / "tries").touch()
    stubs.add("uv", UV.format(python=sys.executable) + fails_twice)
    assert set_up(stubs, checkout).returncode == 0
    assert [seconds for _, seconds in stubs.calls("sleep")] == ["2", "6"]


def test_a_download_that_never_works_is_given_up_on_and_leaves_no_stamp(
    stubs: Stubs, checkout: Path
) -> None:
    stubs.add("uv", UV.format(python=sys.executable) + "[[ $1 != pip ]]")
    ended = set_up(stubs, checkout)
    assert ended.returncode == 1
    assert ended.stderr == (
        "t1v-n-5f3e-w-0: install_packages failed 5 times; the lines above say why\n"
    )
    assert not (checkout / ".venv/.with-tpu").exists()


def test_a_python_that_is_too_old_is_refused(stubs: Stubs, checkout: Path) -> None:
    old = stubs.add("python3.10", OLD_PYTHON.format(python=sys.executable))
    stubs.add("uv", UV.format(python=old))
    ended = set_up(stubs, checkout)
    assert ended.returncode == 1
    assert ended.stderr.endswith("an environment of Python 3.10.12, but 3.11 is needed\n")
    assert not (checkout / ".venv/.with-tpu").exists()


def test_arguments_are_refused_in_one_line(stubs: Stubs, checkout: Path) -> None:
    ended = stubs.run(checkout / "scripts/tpu_setup.sh", "--now")
    assert ended.returncode == 1
    assert ended.stderr == "t1v-n-5f3e-w-0: tpu_setup.sh takes no arguments, not '--now'\n"
    assert stubs.run(checkout / "scripts/tpu_setup.sh", "--help").stdout.startswith("scripts/")
    assert stubs.calls() == []
