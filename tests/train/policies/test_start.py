"""Runs that start from the parameters of another agent, also in a wider network."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import networks
from hackmatrix.envs import Environment
from hackmatrix.errors import UserError
from hackmatrix.networks import Spec, files
from hackmatrix.networks.torso import Parts, Torso
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.train import warm_start
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.policies.policy import Policy
from tests.networks.grid import GridWalk

ENV = GridWalk()
NARROW = Spec("mlp", 6, 2, 16, separate_critic=False, compute_dtype="float32")
BOARDS: dict[str, Any] = {
    name: np.random.default_rng(number).random((9, *shape), np.float32)
    for number, (name, shape) in enumerate(ENV.observation.items())
}


class Normalised(Torso):
    """Each of its features depends on how many there are."""

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        seen = parts["cells"].reshape(*parts["cells"].shape[:-3], -1)
        return nn.LayerNorm()(nn.Dense(self.spec.hidden_dim)(seen))


class Deep(Torso):
    """A larger hidden_dim gives it more layers, not wider ones."""

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        seen = parts["cells"].reshape(*parts["cells"].shape[:-3], -1)
        for _ in range(self.spec.hidden_dim):
            seen = nn.Dense(8)(seen)
        return seen


class Changing(Torso):
    """Its code changes after a policy is saved."""

    width = 8

    @nn.compact
    def __call__(self, parts: Parts) -> Any:
        seen = parts["cells"].reshape(*parts["cells"].shape[:-3], -1)
        return nn.Dense(self.width, name="layer")(seen)


class Rewarding(GridWalk):
    """Stands for an environment that differs from GridWalk only in its rewards."""

    name = "mine:Rewarding"


class Renamed(GridWalk):
    name = "mine:Renamed"
    action_names = ("north", *GridWalk.action_names[1:])


def saved(spec: Spec, folder: Path) -> Policy:
    """Returns a policy with random parameters, saved in a file of that folder as its source."""
    network, rng = networks.make(spec, ENV), np.random.default_rng(1)
    params = jax.tree.map(
        lambda leaf: np.float32(0.3 * rng.normal(size=leaf.shape)),
        jax.eval_shape(network.init, jax.random.key(0)),
    )
    policy = Policy(
        ENV, network, params, str(folder / "policy.npz"), 1, RewardSignal(0.99, False, False)
    )
    (folder / "policy.npz").write_bytes(files.content(params, policies.about(policy)))
    return policy


@pytest.mark.parametrize("network", networks.NETWORKS)
@pytest.mark.parametrize("is_other", [False, True], ids=["plain", "turned, with a critic apart"])
def test_a_wider_network_plays_as_the_one_it_starts_from_until_it_learns(
    network: str, is_other: bool, tmp_path: Path
) -> None:
    spec = dataclasses.replace(
        NARROW, network=network, separate_critic=is_other, turn_boards=is_other
    )
    old = saved(spec, tmp_path)
    wide = networks.make(dataclasses.replace(spec, hidden_dim=10), ENV)
    params = warm_start.params_of(old.source, ENV, wide, jax.random.key(7))

    def loss(params: Any) -> tuple[jax.Array, Any]:
        logits, values = wide(params, BOARDS)
        return jnp.square(logits).sum() + jnp.square(values - 1).sum(), (logits, values)

    @jax.jit
    def step(params: Any) -> tuple[Any, Any, Any]:
        gradient, outputs = jax.grad(loss, has_aux=True)(params)
        after = jax.tree.map(lambda leaf, slope: leaf - 1e-3 * slope, params, gradient)
        return after, gradient, outputs

    after, _, outputs = step(params)
    before = jax.jit(old.network.__call__)(old.params, BOARDS)
    for theirs, ours in zip(before, outputs, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-5)
    # The first step makes the heads read the new features; so the second has gradients for them.
    _, gradient, _ = step(after)
    new = jax.tree.map(lambda leaf: np.asarray(leaf)[..., 6:], gradient["params"])
    grown = [leaf for leaf in jax.tree.leaves(new) if leaf.shape[-1] == 4]
    assert grown
    assert all(np.abs(leaf).max() > 0 for leaf in grown)


def test_a_parameter_that_is_one_number_is_kept_in_a_wider_network() -> None:
    first = {"scale": jnp.float32(2), "kernel": jnp.full((3, 4), 2.0)}
    wider = warm_start.widened({"scale": jnp.float32(1), "kernel": jnp.ones((2, 3))}, first)
    assert wider is not None
    assert wider["scale"] == 1
    assert wider["kernel"].tolist() == [[1, 1, 1, 2], [1, 1, 1, 2], [0, 0, 0, 2]]


@pytest.mark.parametrize("torso", [Normalised, Deep])
def test_a_network_that_computes_something_else_when_it_is_wider_is_refused(
    torso: type[Torso], tmp_path: Path
) -> None:
    spec = dataclasses.replace(NARROW, network=f"{__name__}:{torso.__name__}")
    old = saved(spec, tmp_path)
    wide = networks.make(dataclasses.replace(spec, hidden_dim=10), ENV)
    with pytest.raises(UserError, match=r"start this run with --config\.hidden_dim=6"):
        warm_start.params_of(old.source, ENV, wide, jax.random.key(7))


def test_a_run_with_another_compute_dtype_starts_from_the_same_parameters(tmp_path: Path) -> None:
    old = saved(NARROW, tmp_path)
    half = networks.make(dataclasses.replace(NARROW, compute_dtype="bfloat16"), ENV)
    params = warm_start.params_of(old.source, ENV, half, jax.random.key(7))
    jax.tree.map(np.testing.assert_array_equal, params, old.params)


@pytest.mark.parametrize("width", [6, 10])
def test_an_mlp_starts_from_one_whose_file_names_other_channels(width: int, tmp_path: Path) -> None:
    """An MLP has none, and a file of format 1 does not say how many the run had."""
    old = saved(NARROW, tmp_path)
    spec = dataclasses.replace(NARROW, channels=32, hidden_dim=width)
    warm_start.params_of(old.source, ENV, networks.make(spec, ENV), jax.random.key(7))


def test_a_run_in_a_custom_environment_starts_from_a_policy_with_equal_inputs_and_actions(
    tmp_path: Path,
) -> None:
    old = saved(NARROW, tmp_path)

    def started(env: Environment) -> Any:
        return warm_start.params_of(old.source, env, networks.make(NARROW, env), jax.random.key(7))

    jax.tree.map(np.testing.assert_array_equal, started(Rewarding()), old.params)
    message = "with 'up' as action 0; it cannot play mine:Renamed with 'north' as action 0$"
    with pytest.raises(UserError, match=message):
        started(Renamed())


def test_a_policy_saved_before_its_network_code_changed_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = saved(dataclasses.replace(NARROW, network=f"{__name__}:Changing"), tmp_path)
    monkeypatch.setattr(Changing, "width", 16)
    message = (
        rf"{old.source} does not fit network={__name__}:Changing, which has changed since: "
        r"params/actor/kernel is \[8, 4\] in the file and \[16, 4\] in the network$"
    )
    with pytest.raises(UserError, match=f"^{message}"):
        policies.of_file(old.source)
    network = networks.make(old.network.spec, ENV)
    with pytest.raises(UserError, match=f"^start_from={message}"):
        warm_start.params_of(old.source, ENV, network, jax.random.key(7))
