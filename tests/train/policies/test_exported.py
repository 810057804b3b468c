"""Exported policies act as the checkpoint does."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from hackmatrix.envs.protocol import in_parts
from hackmatrix.networks import files
from hackmatrix.rl import distributions
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.policies.artifact import artifact
from hackmatrix.train.policies.policy import Policy
from tests.envs.random_play import turns
from tests.train.policies.saved_policies import saved_run


def test_checkpoint_arrays_and_artifact_act_alike(policy: Policy, tmp_path: Path) -> None:
    played = turns(150)
    parts = in_parts(jax.numpy.asarray(played.observation), policy.env.observation)
    logits, value = policy.network(policy.params, parts)
    chosen = np.asarray(distributions.masked(logits, jax.numpy.asarray(played.mask)).mode())
    assert len(set(chosen.tolist())) > 3

    (tmp_path / "policy.npz").write_bytes(files.content(policy.params, policies.about(policy)))
    plain = NumpyPolicy(tmp_path / "policy.npz")
    acted = [plain.act(*each) for each in zip(played.observation, played.mask, strict=True)]
    assert acted == chosen.tolist()
    np.testing.assert_allclose(plain.outputs(played.observation)[1], value, rtol=1e-3, atol=1e-4)

    exported = jax.export.deserialize(bytearray(artifact(policy)))
    for part in (slice(None), slice(0, 1)):  # any number of boards
        outputs = exported.call(played.observation[part], played.mask[part])
        assert np.asarray(outputs["action"]).tolist() == chosen[part].tolist()
        np.testing.assert_allclose(outputs["logits"], logits[part], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(outputs["value"], value[part], rtol=1e-3, atol=1e-4)


def test_a_policy_of_another_environment_is_exported_too(tmp_path: Path) -> None:
    policy = policies.of_run(saved_run(tmp_path, "gymnax:CartPole-v1"))
    observation = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    mask = np.ones((5, 2), bool)
    parts = in_parts(jax.numpy.asarray(observation), policy.env.observation)
    logits, _ = policy.network(policy.params, parts)
    exported = jax.export.deserialize(bytearray(artifact(policy)))
    np.testing.assert_allclose(exported.call(observation, mask)["logits"], logits, atol=1e-4)
    (tmp_path / "policy.npz").write_bytes(files.content(policy.params, policies.about(policy)))
    plain = NumpyPolicy(tmp_path / "policy.npz")
    np.testing.assert_allclose(plain.outputs(observation)[0], logits, atol=1e-4)
    assert plain.about.env == "gymnax:CartPole-v1"
