"""Checks that an environment, ours or anybody's, conforms to the protocol: `check(env)`.

If the static checks pass (hackmatrix.envs.static_checks), a batch of boards is played at random and
compared with what `Environment` promises: the same draws for the same keys, boards independent of
each other, episodes that restart, observations that can be stored and decoded later, and boards
that look the same after all that is hidden is redrawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from hackmatrix.envs import static_checks
from hackmatrix.envs.metrics import PERCENT, are_shares
from hackmatrix.envs.protocol import Environment, Step
from hackmatrix.errors import UserError

# So many ends of episodes in a row on one board are no coincidence.
_FEWEST_ENDS = 10


class Broken(AssertionError):
    """Raised if an environment violates the protocol; the message has a line per violation."""


class Played(NamedTuple):
    """The inputs and outputs of a step, and what was seen before it, as host arrays."""

    keys: np.ndarray
    states: Any
    actions: np.ndarray
    seen: Any
    parts: dict[str, np.ndarray]
    mask: np.ndarray
    after: Any
    step: Step


def check(env: Environment, boards: int = 8, steps: int = 200, seed: int = 0) -> None:
    """Raises Broken, listing the violations found by the static checks or, if there are none, in
    `steps` steps of random valid play.
    """
    if isinstance(env, type):
        raise Broken(f"{env.__name__} is a class: pass an instance, {env.__name__}()")
    try:
        env.on(jax.default_backend())
    except UserError as error:
        raise Broken(str(error)) from None
    if found := [*static_checks.faults(env)] or [*_faults(env, boards, steps, seed)]:
        raise Broken("\n".join(found))


def _faults(env: Environment, boards: int, steps: int, seed: int) -> Iterator[str]:
    play = _Play(env, boards, seed)
    yield from _faults_of_reset(play)
    trace = [play.step() for _ in range(steps)]
    for faults_of_trace in _TRACE_CHECKS:
        yield from faults_of_trace(env, trace)
    yield from _faults_of_keys(play, trace[-1])
    yield from _faults_of_both_at_once(play, trace[-1])
    yield from _faults_of_neighbours(play, trace[-1])
    yield from _faults_of_storage(env, trace[-1])
    yield from _faults_of_redrawn(play, trace)


class _Play:
    """Plays a batch of boards at random, with each function compiled once."""

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
    """Converts the leaves to NumPy arrays, except typed keys, which NumPy lacks."""
    return jax.tree.map(lambda leaf: leaf if _is_key(leaf) else np.asarray(leaf), tree)


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _faults_of_reset(play: _Play) -> Iterator[str]:
    keys = play.keys()
    if not _same(play.run_reset(keys), play.run_reset(keys)):
        yield "reset: the same keys give different boards"
    actions = np.zeros(play.boards, np.int32)
    after = jax.eval_shape(play.run_step, keys, play.states, actions)[0]
    if _are_weak(play.states) != _are_weak(after):
        yield "step: its states have other weak types than those of reset: set the dtypes"


def _faults_of_observation(env: Environment, trace: list[Played]) -> Iterator[str]:
    if any(not np.isfinite(part).all() for each in trace for part in each.parts.values()):
        yield "decode: an observation is not finite"
    if env.landmark is not None and not all(map(_has_place, trace)):
        yield (
            "decode: `player` must begin with its row and column as fractions that are 0 in the "
            "first row and column and 1 in the last, as env.landmark is set"
        )
    ends = (each.step.terminated | each.step.truncated for each in trace)
    if not all((each.mask.any(-1) | end).all() for each, end in zip(trace, ends, strict=True)):
        yield (
            "decode: the mask allows no action on a board whose episode goes on: training would "
            "take an arbitrary one"
        )


def _has_place(played: Played) -> bool:
    """Whether the part `player` begins with a place on the board."""
    sizes = np.array(played.parts["cells"].shape[-3:-1])
    places = played.parts["player"][..., :2] * (sizes - 1)
    on_board = (places > -0.1) & (places < sizes - 0.9)
    return bool((on_board & (np.abs(places - places.round()) < 0.1)).all())


def _faults_of_values(env: Environment, trace: list[Played]) -> Iterator[str]:
    if any(not np.isfinite(each.step.reward).all() for each in trace):
        yield "step: a reward is not finite"
    if any((each.step.terminated & each.step.truncated).any() for each in trace):
        yield "step: an episode is both terminated and truncated"
    if not env.truncates and any(each.step.truncated.any() for each in trace):
        yield "step: an episode is truncated, but `truncates` is False"
    for metric in env.metrics:
        if metric.unit == PERCENT and not _are_shares(metric.tag, trace):
            yield f"step: the metric {metric.tag} is in {PERCENT}, so it must be from 0 to 1"
    step = trace[0].step
    told = step.each_step.keys() | step.each_episode.keys() | step.highest.keys()
    if undeclared := sorted(told - {metric.tag for metric in env.metrics}):
        yield f"step: `sections` does not declare the metrics {', '.join(undeclared)}"


def _are_shares(tag: str, trace: list[Played]) -> bool:
    """Whether the metric is from 0 to 1 at every step, or at every end if it is one of episodes."""
    for step in (each.step for each in trace):
        of_ends = {**step.each_episode, **step.highest}
        if tag in step.each_step and not are_shares(step.each_step[tag]):
            return False
        if tag in of_ends and not are_shares(of_ends[tag][step.terminated | step.truncated]):
            return False
    return True


def _faults_of_ends(env: Environment, trace: list[Played]) -> Iterator[str]:
    """Checks that some episode ends, and that a new one can be played after each end."""
    ended = np.stack([each.step.terminated | each.step.truncated for each in trace])
    if not ended.any():
        yield f"no episode ended in {len(trace)} steps of random play: pass check() more `steps`"
    if any(_never_restarts(board) for board in ended.T):
        yield "step: no new episode begins after the first one ends: every later step ends one"


def _never_restarts(ended: np.ndarray) -> bool:
    """Whether every step of a board after its first episode, which had several steps, ends an
    episode. `ended` is bool[T], whether each step did.
    """
    first = int(ended.argmax())
    later = ended[first + 1 :]
    return bool(ended.any() and first > 0 and len(later) >= _FEWEST_ENDS and later.all())


def _faults_of_potential(env: Environment, trace: list[Played]) -> Iterator[str]:
    """Checks that the potential after a step is the one before the next, and 0 at termination."""
    steps = [each.step for each in trace]
    for now, then in itertools.pairwise(steps):
        if now.shaping is None or then.shaping is None:
            return
        goes_on = ~now.terminated & ~now.truncated
        before, after = then.shaping.before, now.shaping.after
        if not np.allclose(before[goes_on], after[goes_on], atol=1e-6):
            yield "step: the potential after a step differs from the one before the next step"
            return
        if after[now.terminated].any():
            yield "step: the potential after a step that terminates an episode must be 0"
            return


_TRACE_CHECKS = (_faults_of_observation, _faults_of_values, _faults_of_ends, _faults_of_potential)


def _faults_of_keys(play: _Play, played: Played) -> Iterator[str]:
    again = play.run_step(played.keys, played.states, played.actions)
    if not _same(again, (played.after, played.step)):
        yield "step: the same keys, boards and actions give different results"


def _faults_of_both_at_once(play: _Play, played: Played) -> Iterator[str]:
    """Checks that an overridden `step_and_encode` equals `step` followed by `encode`."""
    if type(play.env).step_and_encode is Environment.step_and_encode:
        return
    both = jax.jit(play.env.step_and_encode)(played.keys, played.states, played.actions)
    if not _same(tuple(both), (played.after, played.step, play.look(played.after)[0])):
        yield "step_and_encode: it returns something other than step followed by encode"


def _goes_the_same_way(play: _Play, played: Played, kept: np.ndarray) -> bool:
    """Whether the boards in `kept`, bool[E], do the same when all others have other keys."""
    keys = np.where(kept[:, None], played.keys, play.keys())
    mixed = _host(play.run_step(keys, played.states, played.actions))
    some, same = jax.tree.map(lambda leaf: leaf[kept], (mixed, (played.after, played.step)))
    return _same(some, same)


def _faults_of_neighbours(play: _Play, played: Played) -> Iterator[str]:
    """Checks that a board depends neither on its place in the batch nor on the other keys."""
    order = play.rng.permutation(play.boards)
    moved = play.run_step(
        *jax.tree.map(lambda leaf: leaf[order], (played.keys, played.states, played.actions))
    )
    if not _same(moved, jax.tree.map(lambda leaf: leaf[order], (played.after, played.step))):
        yield "step: what happens on a board depends on its place in the batch"
    half = np.arange(play.boards) < play.boards // 2
    if not all(_goes_the_same_way(play, played, kept) for kept in (half, ~half)):
        yield "step: what happens on a board depends on the keys of other boards"


def _faults_of_storage(env: Environment, played: Played) -> Iterator[str]:
    """Checks that what was seen can be stored, shuffled and decoded in another batch."""
    rows = np.resize(np.arange(len(played.actions))[:0:-1], 3 * len(played.actions))
    parts, mask = _host(jax.jit(env.decode)(jax.tree.map(lambda leaf: leaf[rows], played.seen)))
    close = _are_close(parts, {name: part[rows] for name, part in played.parts.items()})
    if not close or not np.array_equal(mask, played.mask[rows]):
        yield "decode: observations decode differently in another batch"


def _faults_of_redrawn(play: _Play, trace: list[Played]) -> Iterator[str]:
    """Checks that redrawn boards look the same, and that each is redrawn by its key alone. Masks
    may differ, as they may depend on what is hidden.
    """
    if not play.env.can_redraw:
        return
    redraw, keys = jax.jit(play.env.redrawn), play.keys()
    redrawn = [redraw(keys, each.states) for each in trace]
    seen = [_host(play.look(each))[1][0] for each in redrawn]
    if not all(_are_close(parts, each.parts) for parts, each in zip(seen, trace, strict=True)):
        yield "redrawn: the boards look different to the player"
    moved = redraw(*jax.tree.map(lambda leaf: leaf[::-1], (keys, trace[-1].states)))
    if not _same(moved, jax.tree.map(lambda leaf: leaf[::-1], redrawn[-1])):
        yield "redrawn: what is drawn for a board depends on its place in the batch"


def _are_close(parts: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> bool:
    return all(np.allclose(parts[name], other, atol=1e-6) for name, other in others.items())


def _are_weak(tree: Any) -> list[bool]:
    return [bool(jax.typeof(leaf).weak_type) for leaf in jax.tree.leaves(tree)]


def _same(one: Any, other: Any) -> bool:
    """Whether two trees are equal bit for bit."""
    if str(jax.tree.structure(one)) != str(jax.tree.structure(other)):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(_bytes(a) == _bytes(b) for a, b in pairs)


def _bytes(leaf: Any) -> bytes:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf).tobytes()
