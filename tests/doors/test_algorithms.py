"""Algorithms from outside the package: invalid ones are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.envs.metrics import Metric, Range, Section
from hackmatrix.envs.protocol import Step
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Params
from hackmatrix.parallel import mesh as meshes
from hackmatrix.ppo.algorithm import PPO
from hackmatrix.ppo.loss import Samples
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.rl.rollout import Players
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.train.program import Program
from tests.envs.toy import Boards, Toy
from tests.train.settings import config, resolved
from tests.train.test_evaluator import GRID, trained


class Bare:
    def __init__(self, *_: Any) -> None:
        pass

    def init(self, key: jax.Array) -> Any:
        return key


class Misnaming(PPO):
    inputs = ("lr", "warmth")


class Uncounting(PPO):
    def update(self, learner: Learner, *rest: Any) -> Any:
        after, *others = super().update(learner, *rest)
        return after.replace(update=learner.update), *others


class Commaless(PPO):
    sections: ClassVar[Any] = Section("Mine", (Metric("train/mine", "mine"),))


class Single(PPO):
    sections: ClassVar = (Section("Mine", Metric("train/mine", "mine")),)  # type: ignore[arg-type]


class Healthy(PPO):
    health: ClassVar[Any] = Range("train/mine", 0.1)


class Undecided(PPO):
    inputs = ("time_limit_minutes",)


class Spelt(PPO):
    inputs = "lr"  # type: ignore[assignment]


class Loose(PPO):
    """Its learner is a dict, in which the trainer cannot replace `update`."""

    def init(self, key: jax.Array) -> Any:
        return {"params": super().init(key).params, "update": 0}


class PlainLearner(NamedTuple):
    params: Any
    update: jax.Array
    key: jax.Array


class Plain(PPO):
    """Its learner is a named tuple, and its `vital` is a list."""

    vital = [*PPO.vital]  # type: ignore[assignment]  # noqa: RUF012

    def init(self, key: jax.Array) -> Any:
        learner = super().init(key)
        return PlainLearner(learner.params, learner.update, learner.key)

    def acting(self, learner: Any) -> Any:
        return learner.params


class Unbuilt(PPO):
    def __init__(self) -> None:
        pass


class Unacting(PPO):
    def acting(self, learner: Learner) -> Any:
        return learner


class Undressed(PPO):
    def acting(self, learner: Any) -> Any:
        return learner["clothes"]


class Short(PPO):
    def update(self, *given: Any) -> Any:
        return super().update(*given)[:3]


class Many(PPO):
    def update(self, *given: Any) -> Any:
        learner, players, tally, metrics = super().update(*given)
        return learner, players, tally, {**metrics, "train/each": jnp.ones(3)}


class Worded(PPO):
    def update(self, *given: Any) -> Any:
        *others, metrics = super().update(*given)
        return *others, {**metrics, "train/word": "hello"}


class Numbered(PPO):
    def update(self, *given: Any) -> Any:
        *others, metrics = super().update(*given)
        return *others, {**metrics, 3: 0.5}


class Timed(PPO):
    def update(self, *given: Any) -> Any:
        *others, metrics = super().update(*given)
        return *others, {**metrics, "time": 0.5, "step": 1.0}


class Unaveraged(PPO):
    def update(self, learner: Learner, players: Players, tally: Tally) -> Any:
        *others, metrics = super().update(learner, players, tally)
        return *others, {**metrics, "train/length": players.episode_length.mean()}


class Falling(PPO):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        raise KeyError("gravity")


class Calm(PPO):
    """The example of CONTRIBUTING.md, with a weight large enough for a short test."""

    sections: ClassVar = (*PPO.sections, Section("Calm", (Metric("train/logits", "logits"),)))

    def loss(
        self, params: Params, samples: Samples, entropy_weight: jax.Array | float
    ) -> tuple[jax.Array, Metrics]:
        total, metrics = super().loss(params, samples, entropy_weight)
        logits, _ = self.network(params, self.env.decode(samples.seen)[0])
        square = jnp.square(logits).mean()
        return total + 10 * square, {**metrics, "train/logits": square}


def address(kind: type) -> str:
    return f"{__name__}:{kind.__name__}"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Bare, "has no update, acting, sections, vital, health"),
        (Misnaming, "its `inputs` must name settings, not warmth"),
        (Undecided, "its `inputs` must be numbers, not time_limit_minutes"),
        (Spelt, "its `inputs` must be a tuple of names"),
        (Loose, "its `init` must return a flax.struct.PyTreeNode with `key` and `update`, an i32"),
        (Unbuilt, "cannot be built as NAME(env, network, config, axis): too many positional"),
        (Falling, "fails when it is built: KeyError: 'gravity', test_algorithms.py:"),
        (
            Undressed,
            "its `acting` fails: TypeError: 'Learner' object is not subscriptable, test_al",
        ),
        (Commaless, "its `sections` must be a tuple of Sections, each with a tuple of Metrics"),
        (Single, "its `sections` must be a tuple of Sections, each with a tuple of Metrics"),
        (Healthy, "its `health` must be a tuple of Ranges and Trends"),
        (Unacting, "its `acting` must return the network's parameters, a tree like"),
    ],
)
def test_an_invalid_algorithm_is_refused(kind: type, message: str) -> None:
    with pytest.raises(UserError) as refused:
        Program(resolved(algorithm=address(kind)), meshes.over(jax.devices()[:1]))
    assert f"algorithm={address(kind)}" in str(refused.value)
    assert message in str(refused.value)


def test_a_module_that_turns_on_64_bits_is_refused_when_training_would_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "precise.py"
    module.write_text(
        "import jax\nfrom hackmatrix.ppo import PPO\njax.config.update('jax_enable_x64', True)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        # Agents of such a run can be loaded, which needs its program but does not compile it.
        program = Program(resolved(algorithm="precise:PPO"), meshes.over(jax.devices()[:1]))
        with pytest.raises(UserError, match=r"JAX is set to 64 bits \(jax_enable_x64\)"):
            program.compile()
    finally:
        jax.config.update("jax_enable_x64", False)


def test_a_learner_may_be_any_tree_unless_the_trainer_has_to_change_it() -> None:
    def made(**settings: Any) -> Program:
        devices = meshes.over(jax.devices()[:1])
        return Program(resolved(algorithm=address(Plain), **settings), devices)

    assert made().num_parameters() > 0
    with pytest.raises(UserError, match=r"its `init` must return a flax\.struct\.PyTreeNode"):
        made(skip_nonfinite=True)


@pytest.mark.parametrize("turn_boards", [False, True])
def test_an_algorithm_decodes_boards_as_the_network_sees_them(turn_boards: bool) -> None:
    """The game turns its boards before they are decoded, which is cheaper."""
    devices = meshes.over(jax.devices()[:1])
    program = Program(resolved(turn_boards=turn_boards), devices)
    assert isinstance(program.algorithm, PPO)
    seen = jax.eval_shape(program.env.encode, program.shapes.players.boards)
    parts, _ = jax.eval_shape(program.algorithm.env.decode, seen)
    assert ("turned" in parts) == turn_boards


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Short, "Short.update: it must return four values: learner, players, tally, metrics"),
        (Many, r"Many.update: its metric train/each must be a scalar, but has shape \[3\]"),
        (Worded, "Worded.update: its metric train/word must be a number, not str"),
        (Numbered, "Numbered.update: its metrics must be a dictionary from tags to numbers"),
        (Timed, "Timed.update: its metrics must not include step, time, which the trainer or the"),
        (Unaveraged, "Unaveraged.update: its results may differ among devices: its gradients"),
    ],
)
def test_an_update_with_invalid_results_is_refused_in_one_line(kind: type, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Program(config(env=GRID, algorithm=address(kind)), meshes.over()).lower()


class Shadowing(Toy):
    """Reports a metric of PPO without declaring it."""

    def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(each_step={**step.each_step, "train/grad_norm": step.reward})


def test_an_environment_cannot_replace_a_metric_of_the_algorithm() -> None:
    program = Program(config(env=address(Shadowing)), meshes.over())
    with pytest.raises(UserError, match="must not include train/grad_norm, which the trainer or"):
        program.lower()


@pytest.mark.parametrize("kind", [Commaless, Single, Healthy])
def test_an_algorithm_that_is_refused_leaves_no_run(kind: type, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"its `(sections|health)` must be"):
        trained(tmp_path, "refused", 0.0, algorithm=address(kind))
    assert not list(tmp_path.iterdir())


def test_an_algorithm_that_does_not_count_its_updates_is_refused_after_the_first_chunk(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        UserError, match="Uncounting: its `update` must add 1 to the learner's `update`"
    ):
        trained(tmp_path, "uncounted", 0.0, algorithm=address(Uncounting))
    assert not list(tmp_path.iterdir())


def test_a_subclass_of_ppo_can_add_a_term_to_its_loss_and_log_it(tmp_path: Path) -> None:
    run = trained(tmp_path, "calm", 0.0, algorithm=address(Calm))
    logits = [json.loads(line)["train/logits"] for line in run.metrics.read_text().splitlines()]
    assert 0 < logits[-1] < 0.5 * logits[0]
