"""Policies without JAX: the inputs that they accept, and the files that they can be read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hackmatrix.envs import make
from hackmatrix.errors import UserError
from hackmatrix.networks import files, numpy_address
from hackmatrix.networks.files import About
from hackmatrix.standalone import inputs
from hackmatrix.standalone.driving import check_plays
from hackmatrix.standalone.policy import NumpyPolicy

SEEN, MASK = np.zeros(1545, np.float32), np.ones(28, bool)


@pytest.fixture(scope="module")
def winner() -> NumpyPolicy:
    return NumpyPolicy("policies/winner")


def changed(place: int, number: float) -> np.ndarray:
    observation = SEEN.copy()
    observation[place] = number
    return observation


@pytest.mark.parametrize(
    ("observation", "mask", "draws", "message"),
    [
        (SEEN, 0 * MASK, None, "the mask allows no action"),
        (np.zeros((3, 1545)), MASK, None, r"not \[3, 1545\] and \[28\]"),
        (SEEN[1:], MASK, None, r"must have shapes \[1545\] and \[28\], .* not \[1544\] and \[28\]"),
        (SEEN, MASK[1:], None, r"\[1545\] and \[28\], .* not \[1545\] and \[27\]"),
        (changed(70, np.nan), MASK, None, "the observation is not finite"),
        (changed(70, np.inf), MASK, None, "the observation is not finite"),
        (changed(0, 1.5), MASK, None, "the player outside of the board"),
        (changed(1, -0.2), MASK, None, "the player outside of the board"),
        (SEEN, MASK, 0, r"draws=0 must be numpy\.random\.default_rng\(SEED\), or None"),
        (SEEN, MASK, 1, "draws=1 must be"),
    ],
)
def test_inputs_that_it_cannot_act_on_are_refused(
    winner: NumpyPolicy, observation: np.ndarray, mask: np.ndarray, draws: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        winner.act(observation, mask, draws)


def test_a_list_of_numbers_is_an_observation_too(winner: NumpyPolicy) -> None:
    for one, other in zip(winner.outputs(SEEN.tolist()), winner.outputs(SEEN), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_policy_with_fewer_actions_than_the_game_cannot_play_it(winner: NumpyPolicy) -> None:
    check_plays(winner.about)
    with pytest.raises(UserError, match="with 1545 inputs and 27 actions; HackMatrix has"):
        check_plays(replace(winner.about, actions=winner.about.actions[1:]))


def wider(about: About) -> About:
    return replace(about, actions=(*about.actions, "wait"))


def of_another_kind(about: About) -> About:
    return replace(about, spec=replace(about.spec, network="cells"))


def not_found(about: About) -> About:
    spec = replace(about.spec, network="my_net:Net")
    return replace(about, spec=spec, in_numpy="hackmatrix.networks.in_numpy:nothing")


def not_callable(about: About) -> About:
    return replace(not_found(about), in_numpy="hackmatrix.networks:NETWORKS")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wider, r"does not fit network=.* since: ValueError: it has 28 logits for 29 actions"),
        (of_another_kind, "does not fit network=cells, which has changed since: KeyError: 'embed_"),
        (
            not_found,
            "network=my_net:Net: its `in_numpy` is not found: hackmatrix.*has no 'nothing'",
        ),
        (not_callable, "network=my_net:Net: its `in_numpy` must name a function, not .'mlp'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_when_it_is_loaded(
    change: Callable[[About], About], message: str, tmp_path: Path
) -> None:
    params, about = files.read("policies/winner")
    (tmp_path / "policy.npz").write_bytes(files.content(params, change(about)))
    with pytest.raises(UserError, match=message):
        NumpyPolicy(tmp_path)


def test_a_network_is_not_imported_where_a_file_names_its_pass_in_numpy() -> None:
    """The network itself needs JAX, which may be missing."""
    params, about = files.read("policies/winner")
    spec = replace(about.spec, network="no_module:Net")
    address = numpy_address(about.spec.network)
    assert NumpyPolicy.of(params, replace(about, spec=spec, in_numpy=address)).act(SEEN, MASK) >= 0


def test_a_policy_with_parts_or_actions_in_another_order_is_refused(winner: NumpyPolicy) -> None:
    about, env = winner.about, make("hackmatrix")
    assert (list(inputs.PARTS.items()), inputs.ACTION_NAMES) == (
        list(env.observation.items()),
        env.action_names,
    )
    check_plays(about)
    parts = dict(reversed(about.observation.items()))
    for other in (replace(about, observation=parts), replace(about, actions=about.actions[::-1])):
        with pytest.raises(UserError, match="another order"):
            check_plays(other)
