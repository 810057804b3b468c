"""The networks: what they compute, with JAX and NumPy, and which environments they refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import networks, plugins
from hackmatrix.envs import make
from hackmatrix.envs.protocol import flat
from hackmatrix.errors import UserError
from hackmatrix.networks import NETWORKS, Spec, files
from hackmatrix.networks.centred import around
from hackmatrix.networks.files import About
from hackmatrix.standalone.policy import NumpyPolicy
from tests.networks.grid import GridWalk

ENV = GridWalk()
BOARDS = 12
OVER_CELLS = tuple(name for name in NETWORKS if name != "mlp")


def make_spec(network: str, **changes: Any) -> Spec:
    values: dict[str, Any] = {
        "network": network, "hidden_dim": 24, "num_layers": 2, "channels": 32,
        "separate_critic": False, "compute_dtype": "float32",
    }  # fmt: skip
    return Spec(**{**values, **changes})


@functools.cache
def compiled(spec: Spec) -> Callable[..., Any]:
    """Returns the compiled network of a spec, which all tests share."""
    return jax.jit(networks.make(spec, ENV).__call__)


def outputs(spec: Spec, params: Any, parts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns logits and values."""
    logits, values = compiled(spec)(params, parts)
    return np.asarray(logits), np.asarray(values)


@functools.cache
def sample_parts() -> dict[str, Any]:
    keys = np.random.default_rng(0).integers(1 << 32, size=(BOARDS, 2), dtype=np.uint32)
    look = jax.jit(lambda keys: ENV.decode(ENV.encode(ENV.reset(keys)))[0])
    return jax.device_get(look(keys))


def random_params(spec: Spec) -> Any:
    """Returns parameters without zeros: biases, which begin at 0, could hide a mistake."""
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: np.float32(0.2 * rng.normal(size=leaf.shape)),
        jax.eval_shape(networks.make(spec, ENV).init, jax.random.key(0)),
    )


@pytest.mark.parametrize("turn_boards", [False, True])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_the_same_with_numpy_alone(
    tmp_path: Path, name: str, separate: bool, turn_boards: bool
) -> None:
    spec = make_spec(name, separate_critic=separate, turn_boards=turn_boards)
    params, parts = random_params(spec), sample_parts()
    logits, values = outputs(spec, params, parts)
    about = About(
        ENV.name, dict(ENV.observation), ENV.action_names, "", 0, spec, landmark=ENV.landmark
    )
    (tmp_path / "policy.npz").write_bytes(files.content(params, about))
    plain = NumpyPolicy(tmp_path / "policy.npz")
    assert plain.about == about
    observation = np.asarray(flat(parts, ENV.observation))
    again = plain.outputs(observation)
    np.testing.assert_allclose(again[0], logits, atol=1e-5)
    np.testing.assert_allclose(again[1], values, atol=1e-5)
    assert np.ptp(logits, axis=0).min() > 1e-2
    one = plain.outputs(observation[0])
    np.testing.assert_allclose(one[0], logits[0], atol=1e-5)
    np.testing.assert_allclose(one[1], values[0], atol=1e-5)
    none = plain.outputs(observation[:0])
    of_none = jax.eval_shape(
        networks.make(spec, ENV).__call__, params, jax.tree.map(lambda part: part[:0], parts)
    )
    for found in none, of_none:
        assert [each.shape for each in found] == [(0, ENV.num_actions), (0,)]


@pytest.mark.parametrize("name", NETWORKS)
def test_an_untrained_policy_is_nearly_uniform_and_its_values_are_small(name: str) -> None:
    params = jax.jit(networks.make(make_spec(name), ENV).init)(jax.random.key(3))
    logits, values = outputs(make_spec(name), params, sample_parts())
    assert np.ptp(logits, axis=-1).max() < 0.1
    assert np.abs(values).max() < 10


@pytest.mark.parametrize("name", NETWORKS)
def test_a_separate_critic_does_not_change_the_policy(name: str) -> None:
    shared, separated = (make_spec(name, separate_critic=separate) for separate in (False, True))
    params = random_params(separated)
    logits, values = outputs(separated, params, sample_parts())
    inner = {key: value for key, value in params["params"].items() if key != "critic_torso"}
    again, others = outputs(shared, {"params": inner}, sample_parts())
    np.testing.assert_array_equal(logits, again)
    assert np.abs(values - others).max() > 1e-3


@pytest.mark.parametrize("name", NETWORKS)
def test_heads_are_float32_where_products_are_bfloat16(name: str) -> None:
    """bfloat16 has only 2 numbers from 3 to 3.03, so most values would be the same."""
    params = random_params(make_spec(name))
    head = params["params"]["critic"]
    params["params"]["critic"] = {"kernel": 1e-3 * head["kernel"], "bias": head["bias"] * 0 + 3}
    logits, values = outputs(make_spec(name, compute_dtype="bfloat16"), params, sample_parts())
    assert logits.dtype == values.dtype == np.float32
    assert len(set(values.tolist())) == BOARDS
    exact = outputs(make_spec(name), params, sample_parts())
    np.testing.assert_allclose(logits, exact[0], atol=0.2)


def test_gradients_of_biases_are_summed_in_float32_where_products_are_bfloat16() -> None:
    """They sum over thousands of cells: a large bfloat16 sum would lose small terms."""
    rng = np.random.default_rng(5)
    parts = {
        part: jnp.asarray(rng.random((512, *shape), np.float32))
        for part, shape in ENV.observation.items()
    }

    def gradient(dtype: str) -> Any:
        spec = make_spec("cells", hidden_dim=16, channels=16, compute_dtype=dtype)
        network = networks.make(spec, ENV)

        def loss(params: Any, parts: Any) -> jax.Array:
            logits, values = network(params, parts)
            return jnp.square(logits - 1).mean() + jnp.square(values - 1).mean()

        return jax.jit(jax.grad(loss))(random_params(spec), parts)

    exact = jax.tree.leaves_with_path(gradient("float32"))
    for (path, right), rounded in zip(exact, jax.tree.leaves(gradient("bfloat16")), strict=True):
        if path[-1].key == "bias":
            scale = jnp.vdot(right, rounded) / jnp.vdot(right, right)
            assert scale == pytest.approx(1, abs=0.015), jax.tree_util.keystr(path)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_in_32_bits_even_where_64_are_enabled(name: str) -> None:
    with jax.enable_x64(True):
        network = networks.make(make_spec(name), ENV)
        params = jax.eval_shape(network.init, jax.random.key(0))
        results = jax.eval_shape(network.__call__, params, sample_parts())
    found = jax.tree.leaves((params, results))
    assert {each.dtype for each in found} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", OVER_CELLS)
def test_networks_over_cells_see_where_the_player_stands(name: str) -> None:
    params, parts = random_params(make_spec(name)), sample_parts()
    row, *others = parts["player"].T
    moved = {**parts, "player": np.stack([1 - row, *others], axis=-1)}
    there, elsewhere = (outputs(make_spec(name), params, each)[0] for each in (parts, moved))
    assert np.abs(there - elsewhere).min(-1).max() > 1e-3


def test_a_centred_network_sees_the_cell_one_step_up_alike_from_everywhere() -> None:
    """In a network that ignores the inputs that tell the player's place."""
    rows, columns, features = ENV.observation["cells"]
    centred = make_spec("centred")
    params = random_params(centred)
    centred_inputs = (2 * rows - 1) * (2 * columns - 1) * centred.channels
    params["params"]["embed"]["bias"][:] = 0
    params["params"]["Dense_0"]["kernel"][centred_inputs:] = 0
    cells = np.indices((rows - 1, columns)).reshape(2, -1)
    row, column = cells
    parts = {
        "player": np.zeros((row.size, 3), np.float32),
        "cells": np.zeros((row.size, rows, columns, features), np.float32),
    }
    parts["player"][:, :2] = cells.T / (np.array([rows, columns]) - 1)
    parts["cells"][np.arange(row.size), row + 1, column] = 1
    logits, _ = outputs(centred, params, parts)
    np.testing.assert_allclose(logits, np.tile(logits[:1], (row.size, 1)), atol=1e-5)
    nothing = {**parts, "cells": np.zeros_like(parts["cells"])}
    assert np.abs(logits - outputs(centred, params, nothing)[0]).max() > 1e-2


def test_a_cpu_finds_the_place_of_the_player_once_and_not_for_each_number_around_it() -> None:
    cells, place = jnp.zeros((4, 6, 6, 3)), jnp.zeros(4, jnp.int32)
    both_ways = jax.value_and_grad(lambda cells, *place: around(cells, *place).sum())
    for function, calls in (around, 1), (both_ways, 2):
        lowered = jax.jit(function).lower(cells, place, place).as_text()
        assert lowered.count('inlineable = "false"') == calls


@pytest.mark.parametrize("platform", ["cpu", "tpu", "default"])
def test_centring_and_its_gradient_equal_those_of_products(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`around` moves cells. Products with 0 and 1 do the same, and JAX differentiates them."""
    monkeypatch.setattr(
        jax.lax, "platform_dependent", lambda *given, **ways: ways[platform](*given)
    )
    rows, columns = 5, 6
    places = np.indices((rows, columns)).reshape(2, -1)
    cells = np.random.default_rng(0).normal(size=(places.shape[1], rows, columns, 3))

    def by_products(cells: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
        up, right = (
            place[:, None, None] + np.arange(1 - size, size)[:, None] == np.arange(size)
            for place, size in ((row, rows), (column, columns))
        )
        return jnp.einsum("eir,ejc,ercf->eijf", up * 1.0, right * 1.0, cells)

    shape = (len(cells), 2 * rows - 1, 2 * columns - 1, 3)
    cotangent = np.float32(np.random.default_rng(1).normal(size=shape))

    def laid_out(lay_out: Callable[..., jax.Array]) -> tuple[jax.Array, jax.Array]:
        out, back = jax.vjp(lambda cells: lay_out(cells, *places), jnp.float32(cells))
        return out, back(cotangent)[0]

    for one, other in zip(
        *(jax.jit(laid_out, static_argnums=0)(each) for each in (around, by_products)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_convolution_sees_the_eight_cells_around_and_not_beyond() -> None:
    """A change of one cell changes the outputs of that cell and its eight neighbours only."""
    from hackmatrix.networks.conv import Convolution

    layer = Convolution(channels=3, compute_dtype="float32")
    cells = np.random.default_rng(0).normal(size=(1, 5, 5, 3)).astype(np.float32)
    params, apply = jax.jit(layer.init)(jax.random.key(1), cells), jax.jit(layer.apply)
    before = np.asarray(apply(params, cells))
    cells[0, 2, 2] += 1
    after = np.asarray(apply(params, cells))
    changed = np.abs(after - before)[0].max(-1) > 1e-6
    expected = np.zeros((5, 5), bool)
    expected[1:4, 1:4] = True
    np.testing.assert_array_equal(changed, expected)


@pytest.mark.parametrize("name", OVER_CELLS)
def test_a_network_over_cells_refuses_an_environment_without_cells(name: str) -> None:
    with pytest.raises(UserError) as refused:
        networks.make(make_spec(name), make("gymnax:CartPole-v1"))
    assert f"network={name} does not support gymnax:CartPole-v1" in str(refused.value)
    assert "but this environment has observation [4]; use network=mlp" in str(refused.value)


def test_turning_is_refused_where_the_observation_already_has_a_part_turned() -> None:
    env = GridWalk()
    vars(env).update(observation={**env.observation, "turned": (5,)})
    with pytest.raises(UserError, match=r"the part turned, .* already exists in its observation"):
        networks.make(make_spec("mlp", turn_boards=True), env)


def test_turning_is_refused_for_an_environment_without_a_landmark() -> None:
    with pytest.raises(UserError, match="turn_boards=True is not supported by gymnax:CartPole"):
        networks.make(make_spec("mlp", turn_boards=True), make("gymnax:CartPole-v1"))


def test_an_unknown_network_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(UserError, match="mlp, centred, conv, cells, or MODULE:NAME"):
        networks.make(make_spec("resnet"), GridWalk())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("failing", "import math\nmath.nothing\n", "no attribute 'nothing', failing_net.py:2"),
        ("needy", "import nothing_like_it\n", "No module named 'nothing_like_it', needy_net.py:1"),
        ("unclosed", "Net = (\n", r"'\(' was never closed \(unclosed_net.py, line 1\)"),
    ],
)
def test_a_module_that_fails_is_reported_with_its_line(
    name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}_net.py").write_text(f"{text}class Net: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"^{name}_net:Net: [A-Z][A-Za-z]+Error: .*{message}$"):
        plugins.load(f"{name}_net:Net")


def test_channels_that_attention_heads_cannot_share_are_refused() -> None:
    with pytest.raises(UserError, match="channels=24"):
        networks.make(make_spec("cells", channels=24), GridWalk())
