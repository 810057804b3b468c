"""Command lines of the programs: what is refused, and what flags about policies mean."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from absl import flags
from absl.testing import flagsaver

from hackmatrix.networks import files
from hackmatrix.search.planner import FEWEST, MOST
from hackmatrix.train.runs.directory import create
from launch.startup import policy_flags
from tests.train.settings import resolved

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path.stem for path in (ROOT / "launch").glob("*.py") if "__main__" in path.read_text()
)


# Prints the first call of a method of the agent, and ends there.
ASKING = """
import sys
from launch import {program} as program
from launch.startup import policy_flags

class Agent:
    def __getattr__(self, name):
        def asked(*given, tell=None, **more):
            print(name, *given, more)
            sys.exit()
        return asked

policy_flags.load = lambda _: Agent()
policy_flags.parser("launch.{program}")(sys.argv)
program.main([])
"""


def start(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"launch.{program}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("export", ["--run=a", "--policy=b"], "use --run=RUN or --policy=FILE, not both"),
        ("evaluate", [f"--plan={MOST + 1}"], f": must be 0, or from {FEWEST} to {MOST}"),
        ("watch", ["--plan=8", "--greedy"], "greedy=True: cannot be combined: choose one of"),
        ("watch", ["--run=a", "--episode=-1"], "-1 is not an integer in the range [0, 4294967295]"),
        ("evaluate", ["--seed=1e3"], "flag --seed=1e3: give a whole number, like 1_000_000"),
        ("evaluate", ["--nogreedy=1"], "--nogreedy=1 does not take an argument"),
        ("play", ["again"], "'again' is not a flag"),
        ("serve", ["--headless-cli", "--plan=16"], "--plan=16 needs a policy: use --run=RUN or"),
        (
            "drive",
            ["--games=2"],
            "give --policy=policies/winner, or a file that launch.export wrote",
        ),
        ("drive", ["--policy=a", "b"], "'b' is not a flag"),
        ("preflight", [], "choose a slice, such as --slice=v4-8"),
        ("watch", ["--html=/nowhere/a.html"], "/nowhere/a.html: No such file or directory; choose"),
        ("report", ["--runs=a,"], "--runs=a, has an empty name: use --runs=A,B"),
        ("watch", ["--gif=launch"], "launch: Is a directory; choose another --gif"),
        ("train", ["nonsense"], "'nonsense' is not a flag; settings are --config.NAME=VALUE"),
        ("train", ["--profile=0:3"], "flag --profile=0:3: must be START:COUNT, such as 10:3"),
        ("train", ["--resume="], "flag --resume=: must not be empty"),
        ("train", ["--workdir="], "flag --workdir=: must not be empty"),
        ("doctor", ["--workdir="], "flag --workdir=: must not be empty"),
        ("export", ["--run="], "flag --run=: must not be empty"),
        ("watch", ["--policy="], "flag --policy=: must not be empty"),
        ("evaluate", ["--workdir="], "flag --workdir=: must not be empty"),
        ("report", ["--runs="], "flag --runs=[]: must not be empty"),
        ("bench", ["starts", "--seconds=1"], "--seconds applies to env, train, scaling, sinks, "),
        ("bench", ["env", "--config.lr=1e-3"], "--config applies to train, scaling, sinks, not to"),
        ("bench", ["gymnasium", "--config=configs/cpu.py"], "not to gymnasium"),
        ("bench", ["env", "--slice=v4-8", "--boards=4"], "--boards cannot be used with --slice"),
        ("bench", ["env", "--slice=v4-8", "--seconds=1"], "--seconds cannot be used with --slice"),
        ("bench", ["env", "--boards_a_device=4"], "--boards_a_device needs --slice"),
        (
            "bench",
            ["env", "--slice=v4-8", "--boards_a_device=536870912"],
            "--boards_a_device must be at most 536870911 on a v4-8",
        ),
    ],
)
def test_a_wrong_command_line_is_reported_in_one_line(
    program: str, arguments: list[str], message: str
) -> None:
    refused = start(program, *arguments)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"launch.{program}: ")
    assert len(refused.stderr.splitlines()) == 1
    assert message in refused.stderr


BOTH_WAYS = "needs standard input for commands and standard output for answers, but one of them is"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("serve --headless-cli <&-", f"{BOTH_WAYS} closed"),
        ("serve --headless-cli >&-", f"{BOTH_WAYS} closed"),
        ("play <&-", f"{BOTH_WAYS} closed"),
        ("watch >&-", "standard output is closed: use --html=FILE or --gif=FILE"),
    ],
)
def test_a_closed_standard_input_or_output_is_reported(command: str, message: str) -> None:
    line = f"exec {shlex.quote(sys.executable)} -m launch.{command}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"launch.{command.split()[0]}: {message}\n"


def test_only_a_run_has_a_best_policy() -> None:
    refused = start("export", "--policy=some.npz", "--best")
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last == "launch.export: some.npz is one policy; only a run has a best one"


def test_drive_with_a_plan_needs_no_forward_pass_in_numpy(tmp_path: Path) -> None:
    params, about = files.read("policies/winner")
    spec = replace(about.spec, network="my_net:Net")
    (tmp_path / "policy.npz").write_bytes(files.content(params, replace(about, spec=spec)))
    code = """
import sys
from launch import drive
drive._looking_ahead = lambda policy, plan: sys.exit(f"looks {plan} games ahead")
drive.parse(sys.argv)
drive.main([])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, f"--policy={tmp_path}", "--plan=4"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.stderr == "looks 4 games ahead\n"


def test_a_missing_run_is_reported_in_one_line_after_one_about_loading(tmp_path: Path) -> None:
    refused = start("export", "--run=lost", f"--workdir={tmp_path}")
    first, *_, last = refused.stderr.splitlines()
    assert refused.returncode == 1
    assert first == "launch.export: loading JAX and the policy ..."
    assert last == f"launch.export: there is no run 'lost' in {tmp_path}"
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_shows_every_flag_on_one_screen_and_exits_with_0(program: str) -> None:
    helped = start(program, "--help")
    assert helped.returncode == 0
    assert helped.stderr == ""
    lines = helped.stdout.splitlines()
    assert f"launch.{program}" in helped.stdout
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert not re.search(r"\bv\d*-?\n", helped.stdout)  # no line ends within a name such as v4-8
    own = (ROOT / f"launch/{program}.py").read_text()
    shown = set(re.findall(r"^  --(\w[\w-]*)", helped.stdout, re.MULTILINE))
    wanted = set(re.findall(r'DEFINE_\w+\(\s*"([\w-]+)"', own))
    if "policy_flags" in own:
        wanted |= {"run", "policy", "best", "workdir"}
    if "define_config" in own:
        wanted |= {"config"}
    assert wanted
    assert wanted <= shown


def test_exports_are_placed_with_their_run_or_by_name_and_ignored_by_git(
    tmp_path: Path,
) -> None:
    create(tmp_path, resolved(run_name="mine"))
    of_run = {"run": "mine", "workdir": str(tmp_path)}
    for given, place in (
        (of_run, tmp_path / "mine/exported"),
        ({**of_run, "best": "true"}, tmp_path / "mine/exported-best"),
        ({"policy": "policies/conv"}, Path("exported/conv")),
        ({"run": "policies/expert"}, Path("exported/expert")),
        ({"policy": "some/where.npz"}, Path("exported/where")),
        ({"policy": "some/lr0.001"}, Path("exported/lr0.001")),
        ({"policy": "runs/A/exported"}, Path("exported/A")),
        ({"policy": "runs/A/exported-best/policy.npz"}, Path("exported/A-best")),
    ):
        with flagsaver.as_parsed(**given):
            flags.FLAGS.mark_as_parsed()
            assert policy_flags.place_for_exports() == place
    assert "/exported/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize(
    ("way", "call"),
    [("--greedy", "'greedy': True, 'plan': 0"), ("--plan=16", "'greedy': False, 'plan': 16")],
)
@pytest.mark.parametrize(
    ("program", "number", "what"),
    [("watch", "--episode=2", "watch 2"), ("evaluate", "--episodes=2", "evaluate 2")],
)
def test_the_command_line_sets_how_the_policy_plays(
    program: str, number: str, what: str, way: str, call: str
) -> None:
    given = "--policy=any", number, "--seed=3", way
    printed = subprocess.run(
        [sys.executable, "-c", ASKING.format(program=program), *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    ).stdout
    assert printed.splitlines()[-1] == f"{what} {{'seed': 3, {call}}}"


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ({"run": "a"}, "--run=a"),
        (
            {"run": "a", "best": "true", "workdir": "gs://b/runs"},
            "--run=a --best --workdir=gs://b/runs",
        ),
        ({"run": "a b", "workdir": "my runs"}, "--run='a b' --workdir='my runs'"),
        ({"policy": "policies/conv"}, "--policy=policies/conv"),
        ({"policy": "my policy"}, "--policy='my policy'"),
    ],
)
def test_the_command_that_shows_the_best_game_names_the_same_policy(
    given: dict[str, str], again: str
) -> None:
    with flagsaver.as_parsed(**given):
        flags.FLAGS.mark_as_parsed()
        assert policy_flags.as_flags() == again


def test_a_policy_for_another_game_cannot_give_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = SimpleNamespace(env=SimpleNamespace(name="2048"))
    monkeypatch.setattr(policy_flags, "load", lambda _: agent)
    with flagsaver.as_parsed(policy="any"):
        flags.FLAGS.mark_as_parsed()
        with pytest.raises(SystemExit, match=r"launch\.play: this policy plays 2048, so it cannot"):
            policy_flags.adviser("launch.play", 0)


def test_without_a_name_the_latest_run_is_used_and_printed(tmp_path: Path) -> None:
    for age, name in enumerate(["newer", "older"]):
        found = create(tmp_path, resolved(run_name=name))
        written = (found.directory / "config.json").stat().st_mtime - 60 * age
        os.utime(found.directory / "config.json", (written, written))
    refused = start("evaluate", f"--workdir={tmp_path}")
    assert f"Run newer, the latest in {tmp_path}" in refused.stderr.splitlines()
    assert refused.stderr.splitlines()[-1] == (
        f"launch.evaluate: {tmp_path}/newer has no checkpoint yet"
    )


def test_without_any_run_a_line_says_what_to_do(tmp_path: Path) -> None:
    refused = start("watch", f"--workdir={tmp_path}")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        f"launch.watch: there is no run in {tmp_path} yet: use python -m launch.train, "
        "or --policy=policies/winner"
    )
