"""Arguments in the names of networks and environments from outside: MODULE:NAME(KEY=VALUE)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hackmatrix import networks, plugins
from hackmatrix.envs import make
from hackmatrix.errors import UserError
from tests.doors.outside import toy_environment, toy_network
from tests.train.settings import resolved

CORRIDOR, TOY = f"{toy_environment.__name__}:Corridor", f"{toy_network.__name__}:Toy"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("", {}),
        ("()", {}),
        ("(width=4, kind='wide', share=-0.5, sizes=(1, 2), on=True, none=None)",
         {"width": 4, "kind": "wide", "share": -0.5, "sizes": (1, 2), "on": True, "none": None}),
        ("(kind='a)(b')", {"kind": "a)(b"}),
    ],
)  # fmt: skip
def test_arguments_are_read_as_python_would(given: str, read: dict[str, Any]) -> None:
    address = f"my_net:Net{given}"
    assert plugins.is_address(address)
    assert plugins.parts(address) == ("my_net", "Net")
    assert plugins.arguments(address) == read


@pytest.mark.parametrize(
    "given",
    ["(4)", "(width)", "(width=wide)", "(**{})", "(a=1)(b=2)", "(a=1)+(2)", "(a=1, a=2)",
     "(a=print())", "(a={[]: 1})"],
)  # fmt: skip
def test_anything_else_in_parentheses_is_refused_and_not_run(given: str) -> None:
    with pytest.raises(UserError, match="the arguments must be names with numbers"):
        plugins.arguments(f"my_net:Net{given}")


@pytest.mark.parametrize("given", ["Net(a=1", "Net[1]", "Net(a=1) ", "Net.(a=1)"])
def test_names_of_another_form_are_no_addresses(given: str) -> None:
    assert not plugins.is_address(f"my_net:{given}")
    with pytest.raises(UserError, match="must have the form MODULE:NAME"):
        plugins.load(f"my_net:{given}")


@pytest.mark.parametrize(
    "name",
    ["subprocess:Popen(args=['touch', '{}'])", "subprocess:call(args=['touch', '{}'])",
     "os:system(command='touch {}')"],
)  # fmt: skip
def test_a_name_that_is_no_environment_runs_nothing(name: str, tmp_path: Path) -> None:
    """As the name may come from somebody else's export or run."""
    with pytest.raises(UserError, match=r"must be a hackmatrix\.envs\.protocol\.Environment, or"):
        make(name.format(tmp_path / "ran"))
    assert list(tmp_path.iterdir()) == []


def test_a_module_may_have_the_name_of_one_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code.py").write_text(
        "from hackmatrix.envs import make\ndef game(): return make('hackmatrix')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "code", raising=False)
    assert make("code:game").name == "code:game"


def test_an_environment_is_made_with_its_arguments_and_named_with_them() -> None:
    env = make(f"{CORRIDOR}(length=9)")
    assert (env.observation, env.name) == ({"place": (9,)}, f"{CORRIDOR}(length=9)")
    assert make(CORRIDOR).observation == {"place": (6,)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": f"{CORRIDOR}(size=9)"}, r"Corridor\(size=9\) cannot be called: got an unexpected"),
        ({"network": f"{TOY}(depth=2)"}, "cannot be built: TypeError: .*'depth'"),
        ({"network": f"{TOY}(2)"}, "the arguments must be names"),
        ({"network": "mlp(depth=2)"}, "network='mlp.depth=2.' must be"),
        ({"algorithm": "my_rule:Rule(a=1)"}, "an algorithm has no arguments but settings of its"),
    ],
)
def test_unknown_arguments_are_refused_before_anything_is_trained(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        networks.make(config := resolved(**{"env": CORRIDOR, **settings}), make(config.env))
