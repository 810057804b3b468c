"""Whether an environment keeps to the protocol: `check(env)` for ours and for anybody's.

It plays some boards at random and compares what comes of it with what `Environment` promises: the
shapes and types, the same draws for the same keys, boards independent of each other, episodes
that restart, observations that can be stored and decoded later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.envs.protocol import Environment, Step

Array = jax.Array


class Broken(AssertionError):
    """An environment that breaks promises of the protocol, a line each."""


class Played(NamedTuple):
    """A step: what it was given and what it gave, as host arrays; and what was seen before it."""

    keys: np.ndarray
    states: Any
    actions: np.ndarray
    seen: Any
    parts: dict[str, np.ndarray]
    mask: np.ndarray
    after: Any
    step: Step


def check(env: Environment, boards: int = 8, steps: int = 200, seed: int = 0) -> None:
    """Raises Broken, with all that is wrong, after so many steps of random valid play."""
    if found := list(_faults(env, boards, steps, seed)):
        raise Broken("\n".join(found))


def _faults(env: Environment, boards: int, steps: int, seed: int) -> Iterator[str]:
    if not env.action_names or not env.observation:
        yield "action_names and observation must name at least one action and one part"
        return
    play = _Play(env, boards, seed)
    yield from _faults_of_reset(play)
    trace = [play.step() for _ in range(steps)]
    for look in _LOOKS:
        yield from look(env, trace)
    yield from _faults_of_keys(play, trace[-1])
    yield from _faults_of_both_at_once(play, trace[-1])
    yield from _faults_of_neighbours(play, trace[-1])
    yield from _faults_of_storage(env, trace[-1])


class _Play:
    """Random play on some boards, each function compiled once."""

    def __init__(self, env: Environment, boards: int, seed: int) -> None:
        self.env, self.boards = env, boards
        self.rng = np.random.default_rng(seed)
        self.run_reset: Callable[..., Any] = jax.jit(env.reset)
        self.run_step: Callable[..., Any] = jax.jit(env.step)
        self.look: Callable[..., Any] = jax.jit(lambda states: _look(env, states))
        self.states = self.run_reset(self.keys())

    def keys(self) -> np.ndarray:
        """u32[E, 2]: raw keys."""
        return self.rng.integers(1 << 32, size=(self.boards, 2), dtype=np.uint32)

    def step(self) -> Played:
        keys = self.keys()
        seen, (parts, mask) = _host(self.look(self.states))
        allowed = np.where(mask.any(-1, keepdims=True), mask, True)
        scores = self.rng.random(allowed.shape) * allowed
        actions = np.argmax(scores, axis=-1).astype(np.int32)
        before = self.states
        self.states, step = self.run_step(keys, before, actions)
        return Played(
            keys, _host(before), actions, seen, parts, mask, _host(self.states), _host(step)
        )


def _look(env: Environment, states: Any) -> Any:
    seen = env.encode(states)
    return seen, env.decode(seen)


def _host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _faults_of_reset(play: _Play) -> Iterator[str]:
    keys = play.keys()
    states = jax.eval_shape(play.env.reset, keys)
    for path, leaf in jax.tree.leaves_with_path(states):
        if leaf.shape[:1] != (play.boards,):
            yield f"reset: the leaf {jax.tree_util.keystr(path)} lacks the axis of the boards"
    if not _same(play.run_reset(keys), play.run_reset(keys)):
        yield "reset: the same keys give different boards"
    after = jax.eval_shape(play.env.step, keys, states, np.zeros(play.boards, np.int32))[0]
    if _kinds(states) != _kinds(after):
        yield "step: the states after it have other shapes or (weak) types than those of reset"


def _faults_of_observation(env: Environment, trace: list[Played]) -> Iterator[str]:
    boards = len(trace[0].actions)
    expected = {name: (boards, *shape) for name, shape in env.observation.items()}
    first = trace[0]
    if {name: part.shape for name, part in first.parts.items()} != expected:
        found = {name: part.shape for name, part in first.parts.items()}
        yield f"decode: the parts are {found}, but `observation` declares {expected}"
        return
    if any(part.dtype != np.float32 for part in first.parts.values()):
        yield "decode: the parts must be float32"
    if first.mask.shape != (boards, env.num_actions) or first.mask.dtype != bool:
        yield f"decode: the mask must be bool[{boards}, {env.num_actions}]"
    if any(not np.isfinite(part).all() for each in trace for part in each.parts.values()):
        yield "decode: an observation is not finite"
    size = sum(math.prod(shape) for shape in env.observation.values())
    if jax.eval_shape(env.observe, first.states).shape != (boards, size):
        yield f"observe: the shape must be ({boards}, {size})"


def _faults_of_step(env: Environment, trace: list[Played]) -> Iterator[str]:
    step, boards = trace[0].step, len(trace[0].actions)
    kinds = {"reward": np.float32, "terminated": np.bool_, "truncated": np.bool_}
    for name, kind in kinds.items():
        leaf = getattr(step, name)
        if leaf.shape != (boards,) or leaf.dtype != kind:
            yield f"step: {name} must be {np.dtype(kind)}[{boards}]"
    told = {**step.each_step, **step.each_episode, **step.highest}
    for tag, leaf in told.items():
        if leaf.shape != (boards,):
            yield f"step: the metric {tag} must have one number a board"
    undeclared = told.keys() - {metric.tag for metric in env.metrics}
    if undeclared:
        yield f"step: `sections` does not declare the metrics {', '.join(sorted(undeclared))}"
    names = [tag.rpartition("/")[2] for tag in step.each_episode]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"step: of two metrics named {', '.join(twice)} one would be lost: a run's eval/NAME"
    if env.goal not in (None, *step.each_episode):
        yield f"step: no episode ends with the metric {env.goal}, which `goal` names"
    counted = {name for names in env.action_kinds.values() for name in names}
    if strange := sorted(counted - {*env.action_names}):
        yield f"`action_kinds` has what `action_names` lacks: {', '.join(strange)}"
    if env.truncates == (step.final is None):
        yield "step: `final` must be given by an environment that truncates, and by no other"


def _faults_of_values(env: Environment, trace: list[Played]) -> Iterator[str]:
    if any(not np.isfinite(each.step.reward).all() for each in trace):
        yield "step: a reward is not finite"
    if any((each.step.terminated & each.step.truncated).any() for each in trace):
        yield "step: an episode is both terminated and truncated"
    if not env.truncates and any(each.step.truncated.any() for each in trace):
        yield "step: an episode is truncated, but `truncates` is False"


def _faults_of_ends(env: Environment, trace: list[Played]) -> Iterator[str]:
    """Where an episode ends, the board after it is a new one: it can be played on."""
    ended = [each for each in trace if (each.step.terminated | each.step.truncated).any()]
    if not ended:
        yield f"no episode ended in {len(trace)} steps of random play: give check() more of them"
    seen, final = trace[0].seen, trace[0].step.final
    if env.truncates and str(jax.tree.structure(final)) != str(jax.tree.structure(seen)):
        yield "step: `final` must have the structure of what `encode` gives"


def _faults_of_potential(env: Environment, trace: list[Played]) -> Iterator[str]:
    """A potential is of a board: a step that does not end an episode leaves it for the next."""
    if env.has_potential == (trace[0].step.shaping is None):
        yield "step: `shaping` must be given by an environment that has a potential, by no other"
        return
    told = trace[0].step.shaping
    if env.has_possessions == (told is None or told.gained is None):
        yield "step: `gained` must be given by an environment that has possessions, by no other"
        return
    steps = [each.step for each in trace]
    for now, then in itertools.pairwise(steps):
        if now.shaping is None or then.shaping is None:
            return
        goes_on = ~now.terminated & ~now.truncated
        before, after = then.shaping.before, now.shaping.after
        if not np.allclose(before[goes_on], after[goes_on], atol=1e-6):
            yield "step: the potential after a step is not the one before the next"
            return
        if after[now.terminated].any():
            yield "step: the potential after the end of an episode must be 0"
            return


_LOOKS = (
    _faults_of_observation,
    _faults_of_step,
    _faults_of_values,
    _faults_of_ends,
    _faults_of_potential,
)


def _faults_of_keys(play: _Play, played: Played) -> Iterator[str]:
    again = play.run_step(played.keys, played.states, played.actions)
    if not _same(again, (played.after, played.step)):
        yield "step: the same keys, boards and actions give different results"


def _faults_of_both_at_once(play: _Play, played: Played) -> Iterator[str]:
    """Where a step and what is seen after it are done at once, they are what they are apart."""
    if type(play.env).step_and_encode is Environment.step_and_encode:
        return
    *result, seen = jax.jit(play.env.step_and_encode)(played.keys, played.states, played.actions)
    if not _same((result, seen), ((played.after, played.step), play.look(played.after)[0])):
        yield "step_and_encode: it gives something else than step and encode"


def _goes_the_same_way(play: _Play, played: Played, kept: np.ndarray) -> bool:
    """Whether these boards go the same way while the others have other keys."""
    keys = np.where(kept[:, None], played.keys, play.keys())
    mixed = _host(play.run_step(keys, played.states, played.actions))
    some, same = jax.tree.map(lambda leaf: leaf[kept], (mixed, (played.after, played.step)))
    return _same(some, same)


def _faults_of_neighbours(play: _Play, played: Played) -> Iterator[str]:
    """A board in another place, among others, goes the same way."""
    order = play.rng.permutation(play.boards)
    moved = play.run_step(
        *jax.tree.map(lambda leaf: leaf[order], (played.keys, played.states, played.actions))
    )
    if not _same(moved, jax.tree.map(lambda leaf: leaf[order], (played.after, played.step))):
        yield "step: what happens on a board depends on its place in the batch"
    half = np.arange(play.boards) < play.boards // 2
    if not all(_goes_the_same_way(play, played, kept) for kept in (half, ~half)):
        yield "step: what happens on a board depends on the keys of others"


def _faults_of_storage(env: Environment, played: Played) -> Iterator[str]:
    """What was seen may be stored, shuffled and decoded in another batch."""
    rows = np.resize(np.arange(len(played.actions))[::-1], 3 * len(played.actions))
    parts, mask = _host(env.decode(jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), played.seen)))
    close = all(
        np.allclose(parts[name], part[rows], atol=1e-6) for name, part in played.parts.items()
    )
    if not close or not np.array_equal(mask, played.mask[rows]):
        yield "decode: the rows of what was seen, in another order, decode to other numbers"


def _kinds(tree: Any) -> list[tuple[str, Any, Any, bool]]:
    return [
        (jax.tree_util.keystr(path), leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False))
        for path, leaf in jax.tree.leaves_with_path(tree)
    ]


def _same(one: Any, other: Any) -> bool:
    """Whether two trees are equal bit for bit."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
