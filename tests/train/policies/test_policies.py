"""Policies found in runs and in files."""

from __future__ import annotations

import dataclasses
import errno
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import Parts, in_parts
from hackmatrix.errors import UserError
from hackmatrix.game import observation
from hackmatrix.networks import files
from hackmatrix.parallel import mesh as meshes
from hackmatrix.ppo.algorithm import PPO
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.checkpoints.checkpoints import Checkpoints
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.program import Program
from hackmatrix.train.runs import directory, provenance
from hackmatrix.train.runs.directory import Run, create
from tests.train.policies.saved_policies import STEP, UNIT, saved_run
from tests.train.settings import resolved

SHIPPED = sorted((Path(__file__).parents[3] / "policies").glob("*.npz"))


def observations() -> Parts:
    return in_parts(jax.random.uniform(jax.random.key(0), (5, 1545)), observation.PARTS)


def test_a_run_gives_the_policy_of_its_newest_checkpoint(found: Run) -> None:
    policy = policies.load(found.directory.parent, "auto", None, print)
    assert (policy.source, policy.step, policy.env.name) == ("saved", STEP, "hackmatrix")
    logits, _ = policy.network(policy.params, observations())
    assert logits.shape == (5, 28)
    assert np.ptp(np.asarray(logits)) > 1  # so the parameters are not freshly initialised


def test_the_kernels_setting_of_a_run_is_only_for_the_machine_that_trains_it(found: Run) -> None:
    config = dataclasses.replace(found.config, kernels=True)
    env = policies.of_run(dataclasses.replace(found, config=config)).env
    assert env.types_are_checked  # they are not with interpreted kernels


def test_values_are_in_units_of_reward(found: Run) -> None:
    policy = policies.of_run(found)
    layers = policy.params["params"]
    in_units = jax.tree.map(lambda leaf: leaf / UNIT, layers["critic"])
    params = {"params": {**layers, "critic": in_units}}
    value = policy.network(policy.params, observations())[1]
    learned = policy.network(params, observations())[1]
    assert np.abs(learned).max() > 0.1
    np.testing.assert_allclose(value, UNIT * learned, rtol=1e-5)


def test_a_file_that_may_not_be_read_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"policy\.npz cannot be read: Permission denied"):
        files.read(tmp_path / "policy.npz")


def test_a_file_restores_the_parameters_that_were_written(found: Run, tmp_path: Path) -> None:
    policy = policies.of_run(found)
    (tmp_path / "policy.npz").write_bytes(files.content(policy.params, policies.about(policy)))
    again = policies.load(tmp_path, None, str(tmp_path / "policy.npz"), print)
    jax.tree.map(np.testing.assert_array_equal, again.params, policy.params)
    assert (again.source, again.step, again.network) == ("saved", STEP, policy.network)


def test_loading_a_run_says_which_of_the_users_modules_have_changed(
    found: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = {"my_net": "a hash", "my_env": "another"}
    for module in (policies, provenance):
        monkeypatch.setattr(module, "own_modules", lambda config: {**began, "my_net": "a new one"})
    monkeypatch.setattr(directory, "starts", lambda run: [{}, {"own_modules": began}])
    said: list[str] = []
    policies.of_run(found, said.append)
    assert said == ["my_net: changed since saved was trained; it may play otherwise"]


def test_a_run_in_a_directory_whose_name_checkpoints_cannot_have_is_not_called_damaged(
    found: Run, tmp_path: Path
) -> None:
    shutil.copytree(found.directory, tmp_path / "of[a]" / "saved")
    with pytest.raises(UserError, match=r"cannot be kept at a path that contains \[a\]; rename"):
        policies.load(tmp_path / "of[a]", "saved", None, print)
    (tmp_path / "linked").symlink_to(tmp_path / "of[a]")
    assert policies.load(tmp_path / "linked", "saved", None, print).step == STEP


def test_the_folder_of_an_export_stands_for_its_policy(found: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*policy\.npz"):
        policies.load(tmp_path, None, str(tmp_path), print)
    with pytest.raises(UserError, match=r"no file winner; did you mean policies/winner\?"):
        policies.load(tmp_path, None, "winner", print)
    with pytest.raises(UserError, match=r"no run 'winner' in .*; did you mean policies/winner\?"):
        policies.load(tmp_path, "winner", None, print)
    with pytest.raises(UserError, match=f"{found.name} is a run: python -m launch.export --run="):
        policies.load(tmp_path, None, str(found.directory), print)
    policy = policies.of_run(found)
    (tmp_path / "policy.npz").write_bytes(files.content(policy.params, policies.about(policy)))
    again = policies.load(tmp_path, None, str(tmp_path), print)
    jax.tree.map(np.testing.assert_array_equal, again.params, policy.params)


def test_a_run_in_place_of_its_policy_is_refused_with_how_to_export_it(
    found: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = found.directory.parent
    monkeypatch.setattr(files, "_RUNS", runs)
    for named in (found.name, str(found.directory / "exported")):
        with pytest.raises(UserError, match=f"is a run: .* --run={found.directory} writes its"):
            policies.load(runs, None, named, print)


def test_a_file_in_the_home_of_the_user_may_be_named_by_a_tilde(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(SHIPPED[0].parent))
    assert policies.load("runs", None, f"~/{SHIPPED[0].name}", print).step > 0


def test_a_policy_in_a_bucket_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^gs://b/runs/a: .* launch\.export --run=gs://BUCKET"):
        policies.load(tmp_path, None, "gs://b/runs/a", print)


def test_an_installation_without_policies_says_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="there is no policies/sinner: choose one of policies/"):
        policies.load(tmp_path, None, "policies/sinner", print)
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    with pytest.raises(UserError, match="has no shipped agents; they come with a checkout"):
        policies.load(tmp_path, None, "policies/winner", print)


def test_a_damaged_checkpoint_is_reported_and_an_older_one_is_used(tmp_path: Path) -> None:
    found = saved_run(tmp_path)
    newer = found.directory / "checkpoints" / str(2 * STEP)
    newer.mkdir()
    (newer / "commit_success.txt").touch()
    messages: list[str] = []
    assert policies.of_run(found, messages.append).step == STEP
    assert any("is damaged" in line for line in messages)


@pytest.mark.parametrize("content", [None, b"", b"not an archive", b"PK\x03\x04 half an archive"])
def test_a_file_without_a_policy_is_refused_in_one_line(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "policy.npz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        policies.load(tmp_path, None, str(file), print)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_whose_content_is_damaged_is_refused_in_one_line(found: Run, tmp_path: Path) -> None:
    policy, file = policies.of_run(found), tmp_path / "policy.npz"
    file.write_bytes(files.content(policy.params, policies.about(policy)))
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 64] = bytes(64)
    file.write_bytes(whole)
    with pytest.raises(UserError, match=r"is not a policy that launch\.export wrote: "):
        policies.load(tmp_path, None, str(file), print)


def test_a_file_with_other_arrays_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy.npz"
    np.savez(file, weights=np.zeros(3))
    message = r"is not a policy that launch\.export wrote: it has no array 'format'"
    with pytest.raises(UserError, match=message):
        policies.load(tmp_path, None, str(file), print)


def test_a_run_without_checkpoints_has_no_policy(tmp_path: Path) -> None:
    empty = create(tmp_path, resolved(run_name="empty"))
    with pytest.raises(UserError, match="has no checkpoint yet"):
        policies.of_run(empty)
    for latest in ("auto", None):
        with pytest.raises(UserError, match="has saved a checkpoint"):
            policies.load(tmp_path / "nowhere", latest, None, print)
    with pytest.raises(UserError, match="there is no run 'other'"):
        policies.load(tmp_path, "other", None, print)


class Aiming(PPO):
    """It has parameters besides those of the network."""

    def init(self, key: jax.Array) -> Learner:
        first = super().init(key)
        aiming: Learner = first.replace(params={**first.params, "aim": jnp.zeros(3)})
        return aiming


def test_a_run_may_start_from_another_policy(found: Run, tmp_path: Path) -> None:
    policy = policies.of_run(found)
    (tmp_path / "policy.npz").write_bytes(files.content(policy.params, policies.about(policy)))
    given: dict[str, Any] = {
        "hidden_dim": 16,
        "num_envs": 64,
        "start_from": str(tmp_path / "policy.npz"),
    }
    state = Program(resolved(**given), meshes.over(jax.devices()[:1])).first_state()
    jax.tree.map(np.testing.assert_array_equal, state.learner.params, policy.params)
    aiming = Program(
        resolved(**given, algorithm=f"{__name__}:Aiming"), meshes.over(jax.devices()[:1])
    )
    learner = aiming.first_state().learner
    learner = learner.with_scale(learner.return_scale)
    assert learner.params.keys() == {"params", "aim"}
    jax.tree.map(np.testing.assert_array_equal, aiming.acting(learner), policy.params)
    run = create(tmp_path, resolved(**given))
    checkpoints = Checkpoints(run.checkpoints, keep=1)
    checkpoints.save(STEP, state, {})
    checkpoints.wait()
    other = Program(resolved(**{**given, "hidden_dim": 8}), meshes.over(jax.devices()[:1]))
    with pytest.raises(
        UserError, match=r"different network: start this run with --config\.hidden_dim=16"
    ):
        _ = other.params_to_start_from
    bfloat16 = Program(resolved(**{**given, "compute_dtype": "bfloat16"}), other.mesh)
    jax.tree.map(np.testing.assert_array_equal, bfloat16.params_to_start_from, policy.params)
    (tmp_path / "policy.npz").unlink()  # the run has its own copy of what it needs
    jax.tree.map(np.testing.assert_array_equal, policies.of_run(run).params, policy.params)


def test_a_policy_of_an_environment_that_has_changed_is_refused(found: Run, tmp_path: Path) -> None:
    policy, file = policies.of_run(found), tmp_path / "policy.npz"
    about = policies.about(policy)
    sizes = "and 28 actions; it cannot play hackmatrix with observations of player"
    for others, message in (
        ({"observation": {**about.observation, "player": (9,)}}, sizes),
        ({"observation": dict(reversed(about.observation.items()))}, sizes),
        (
            {"actions": about.actions[::-1]},
            "with 'hack' as action 0; it cannot play hackmatrix with 'up' as action 0",
        ),
    ):
        file.write_bytes(files.content(policy.params, dataclasses.replace(about, **others)))
        with pytest.raises(UserError, match=message):
            policies.load(tmp_path, None, str(file), print)
        program = Program(resolved(start_from=str(file)), meshes.over(jax.devices()[:1]))
        with pytest.raises(UserError, match=r"start_from=.* it cannot play hackmatrix"):
            _ = program.params_to_start_from


def test_a_policy_that_is_not_shipped_is_refused_with_a_list_of_those_that_are() -> None:
    with pytest.raises(UserError, match="there is no policies/nobody: choose one of policies/"):
        policies.load("runs", "policies/nobody", None, print)


def test_each_policy_that_is_shipped_is_small() -> None:
    assert all(each.stat().st_size < 5_000_000 for each in SHIPPED)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda each: each.stem)
def test_a_shipped_policy_is_loaded_by_its_name_and_plays_the_game(file: Path) -> None:
    policy = policies.load("runs", f"policies/{file.stem}", None, print)
    assert policy.env.name == "hackmatrix"
    parts = observations()
    logits, values = policy.network(policy.params, parts)
    flat = np.concatenate([np.asarray(part).reshape(5, -1) for part in parts.values()], axis=1)
    in_numpy = NumpyPolicy(f"policies/{file.stem}").outputs(flat)
    np.testing.assert_allclose(logits, in_numpy[0], atol=1e-3)
    np.testing.assert_allclose(values, in_numpy[1], rtol=1e-3, atol=1e-3)
