"""Exported policies compute in NumPy what the network computes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix
from hackmatrix import networks
from hackmatrix.envs import Environment, make
from hackmatrix.networks import NumpyTorso, Spec
from hackmatrix.networks.centred import Centred
from hackmatrix.networks.torso import Parts, Torso
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.policies.policy import Policy
from tests.envs.toy import Boards, Toy
from tests.networks.grid import GridWalk

FAILS = "its `in_numpy` fails with parameters read from a file"


def in_numpy(params: Mapping[str, Any], parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """The forward pass of Linear, which is that of Forgotten without the relu."""
    layer = params["layer"]
    return parts["wanted"] @ layer["kernel"] + layer["bias"]


def shifted(function: NumpyTorso, *given: Any) -> np.ndarray:
    return function(*given) + 1


def as_named(params: Mapping[str, Any], parts: Mapping[str, np.ndarray]) -> np.ndarray:
    return in_numpy({"layer": params["in/layer"]}, parts)


def as_in_files(params: Mapping[str, Any], parts: Mapping[str, np.ndarray]) -> np.ndarray:
    return in_numpy(params["in"], parts)


def failing(params: Mapping[str, Any], parts: Mapping[str, np.ndarray]) -> np.ndarray:
    return parts["nothing like that"]


class Linear(Torso):
    in_numpy = f"{__name__}:in_numpy"

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        return nn.Dense(self.spec.hidden_dim, name="layer")(parts["wanted"])


class Forgotten(Linear):
    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        return nn.relu(nn.Dense(self.spec.hidden_dim, name="layer")(parts["wanted"]))


class Folded(Linear):
    """Equal to `in_numpy` as long as no observation is below 0."""

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        return nn.Dense(self.spec.hidden_dim, name="layer")(jnp.abs(parts["wanted"]))


class Around(Centred):
    in_numpy = "hackmatrix.networks.in_numpy:centred"


class Failing(Linear):
    in_numpy = f"{__name__}:failing"


class Named(Linear):
    """Its layer has a slash in its name, which files take for a level of the tree."""

    in_numpy = f"{__name__}:as_named"

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        return nn.Dense(self.spec.hidden_dim, name="in/layer")(parts["wanted"])


class TakenApart(Named):
    in_numpy = f"{__name__}:as_in_files"


class InHalves(Linear):
    """Rounds more than NumPy does."""

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        return nn.Dense(self.spec.hidden_dim, name="layer", dtype=jnp.bfloat16)(parts["wanted"])


class Counting(Torso):
    """Needs to know how many observations there are."""

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        seen = parts["wanted"]
        rows = seen.reshape(int(np.prod(seen.shape[:-1])), seen.shape[-1])
        return nn.Dense(self.spec.hidden_dim)(rows).reshape(*seen.shape[:-1], -1)


class Relative(Torso):
    """Adds the first observation to each: the first ones are the same alone, but twice as large."""

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        return nn.Dense(self.spec.hidden_dim)(parts["wanted"] + parts["wanted"][:1])


class Below(Toy):
    """Shows the wanted action as 0 and every other one as -1."""

    def decode(self, seen: Boards) -> tuple[dict[str, jax.Array], jax.Array]:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": parts["wanted"] - 1}, mask


def agent(torso: type[Torso], env: Environment | None = None) -> hackmatrix.Agent:
    env = env or Toy()
    spec = Spec(f"{__name__}:{torso.__name__}", 16, 1, 4, False, "float32")
    network = networks.make(spec, env)
    params = network.init(jax.random.key(0))
    return hackmatrix.Agent(Policy(env, network, params, "mine", 0, RewardSignal(0.99, False)))


def test_the_landmark_of_an_environment_may_be_a_numpy_integer(tmp_path: Path) -> None:
    exported = agent(Linear)
    vars(exported.env).update(landmark=np.int64(1))
    plain, _ = exported.export(tmp_path)
    assert NumpyPolicy(plain).about.landmark == 1


@pytest.mark.parametrize("torso", [Linear, InHalves, TakenApart])
def test_a_network_that_is_the_same_function_in_numpy_is_exported(
    torso: type[Torso], tmp_path: Path
) -> None:
    plain, _ = agent(torso).export(tmp_path)
    logits, _ = NumpyPolicy(plain).outputs(np.eye(12, dtype=np.float32))
    assert np.ptp(logits) > 0


def test_an_export_is_refused_once_its_network_is_another_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = agent(Linear, make("tests.envs.toy:Toy")).export(tmp_path)
    assert hackmatrix.load(plain).policy.params
    changed = "does not fit network=.*Linear, which has changed since: ValueError: its logits for"
    monkeypatch.setitem(globals(), "in_numpy", functools.partial(shifted, in_numpy))
    with pytest.raises(hackmatrix.UserError, match=changed):
        NumpyPolicy(plain)
    monkeypatch.setattr(Linear, "__call__", Forgotten.__call__)
    with pytest.raises(hackmatrix.UserError, match=changed):
        hackmatrix.load(plain)


def test_random_observations_have_the_player_on_the_board(tmp_path: Path) -> None:
    agent(Around, GridWalk()).export(tmp_path)
    assert NumpyPolicy(tmp_path).about.spec.network == f"{__name__}:Around"


@pytest.mark.parametrize(
    ("torso", "message"),
    [
        (Forgotten, "its `in_numpy` computes another function: on random observations its logits"),
        (Failing, rf"{FAILS}: KeyError: 'nothing like that', test_exporting\.py:\d+"),
        (Named, rf"{FAILS}: KeyError: 'in/layer', test_exporting\.py:\d+"),
        (Relative, "what it computes for an observation depends on the others of the batch"),
        (
            Counting,
            r"no policy\.jax can be made of it: Inconclusive.*, test_exporting\.py:\d+; it may",
        ),
    ],
)
def test_a_network_that_exports_would_not_equal_is_not_exported(
    torso: type[Torso], message: str, tmp_path: Path
) -> None:
    with pytest.raises(hackmatrix.UserError, match=f"{message}.*; nothing was exported"):
        agent(torso).export(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_exports_are_also_compared_on_the_first_observations_of_games(tmp_path: Path) -> None:
    agent(Folded).export(tmp_path / "never below 0")
    with pytest.raises(hackmatrix.UserError, match="computes another function"):
        agent(Folded, Below()).export(tmp_path / "below")
