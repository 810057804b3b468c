"""Policy files: which file a name means, and how files that cannot be read are reported."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from flax import struct

from hackmatrix.errors import UserError
from hackmatrix.networks import files


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, outside of a checkout."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_users_may_have_folders_of_their_own_under_policies(elsewhere: Path) -> None:
    assert files.is_shipped("policies/mine")  # so that the error lists the shipped agents
    folder = elsewhere / "policies/mine"
    folder.mkdir(parents=True)
    params, about = files.read("policies/winner")
    (folder / files.EXPORTED).write_bytes(files.content(params, about))
    assert not files.is_shipped("policies/mine")
    assert files.read("policies/mine")[1] == about
    (elsewhere / "policies/winner").mkdir()
    for name in ("policies/winner", "./policies/winner/"):
        assert files.is_shipped(name)
        assert files.read(name)[1] == about


@pytest.mark.parametrize("name", ["policies/winner.npz", "winner.npz", "winner"])
def test_the_name_of_a_shipped_policy_is_suggested_for_its_file(name: str, elsewhere: Path) -> None:
    with pytest.raises(UserError, match=r"; did you mean policies/winner\?"):
        files.read(name)


class Runs:
    """Creates a file when it is unpickled."""

    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.ran,)


def test_a_policy_file_is_never_unpickled(tmp_path: Path) -> None:
    file, ran = tmp_path / "policy.npz", tmp_path / "ran"
    np.savez(file, format=np.int32(2), about=np.array([Runs(ran)], dtype=object))
    with pytest.raises(UserError, match="is not a policy that launch"):
        files.read(file)
    assert not ran.exists()


@pytest.mark.parametrize("of_spec", [False, True])
def test_a_file_of_a_newer_version_is_not_reported_as_damaged(
    of_spec: bool, tmp_path: Path
) -> None:
    arrays = dict(np.load(io.BytesIO(files.content(*files.read("policies/winner")))))
    about = json.loads(str(arrays["about"]))
    (about["spec"] if of_spec else about)["recurrent"] = True
    file = tmp_path / "policy.npz"
    np.savez(file, **{**arrays, "about": np.str_(json.dumps(about))})
    with pytest.raises(UserError) as refused:
        files.read(file)
    assert str(refused.value) == (
        f"{file} was written by a newer version of this program: it has unknown fields (recurrent)"
    )


@pytest.mark.parametrize(
    ("wrong", "of_spec"),
    [
        ({"step": "many"}, False),
        ({"env": 5}, False),
        ({"in_numpy": 5}, False),
        ({"gamma": "x"}, False),
        ({"hidden_dim": "128"}, True),
    ],
)
def test_a_field_of_another_type_is_refused_in_one_line(
    wrong: dict[str, object], of_spec: bool, tmp_path: Path
) -> None:
    arrays = dict(np.load(io.BytesIO(files.content(*files.read("policies/winner")))))
    about = json.loads(str(arrays["about"]))
    (about["spec"] if of_spec else about).update(wrong)
    file = tmp_path / "policy.npz"
    np.savez(file, **{**arrays, "about": np.str_(json.dumps(about))})
    ((name, value),) = wrong.items()
    with pytest.raises(UserError, match=rf"launch.export wrote: {name}={value!r} must be of type"):
        files.read(file)


class Pair(NamedTuple):
    one: np.ndarray
    other: np.ndarray


class Node(struct.PyTreeNode):
    scale: np.ndarray


def test_parameters_are_written_under_the_names_by_which_they_are_read() -> None:
    """Whatever containers an own network keeps them in."""
    (params, about), each = files.read("policies/winner"), np.ones(2, np.float32)
    own = {"pair": Pair(each, each), "listed": [each, None], "node": Node(each), "bias": None}
    names = np.load(io.BytesIO(files.content({"params": {**params["params"], **own}}, about))).files
    given = jax.tree.leaves_with_path({"params": own})
    wanted = {jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in given}
    assert len(wanted) == 4
    assert wanted <= set(names)
    assert "params/bias" not in names
