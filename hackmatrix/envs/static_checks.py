"""Checks that an environment is what it declares, as far as shapes and types show.

Its functions are traced for two boards, and nothing is played. Training would fail on these faults;
`hackmatrix.envs.conformance` begins with these checks.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, PartitionSpec

from hackmatrix import plugins
from hackmatrix.envs.metrics import OF_GAMES, OF_LINES, OF_PLAY, Metric, Range, Section, Trend
from hackmatrix.envs.protocol import Environment, Shaping, Step
from hackmatrix.errors import UserError

_BOARDS = 2
_KEYS = jax.ShapeDtypeStruct((_BOARDS, 2), jnp.uint32)
_ACTIONS = jax.ShapeDtypeStruct((_BOARDS,), jnp.int32)
_NEEDED = "action_names", "observation", "truncates"
_METRICS = "each_step", "each_episode", "highest"


class _Untraceable(Exception):
    """Raised for a function that cannot be traced; the message is the fault to report."""


def check(env: Environment) -> None:
    """Raises UserError, listing all faults that were found."""
    if found := list(faults(env)):
        more = "run hackmatrix.envs.conformance.check(env) to test it in play as well"
        raise UserError("\n".join([*(f"{env.name}: {fault}" for fault in found), more]))


def faults(env: Any) -> Iterator[str]:
    """Yields the faults, a line each. Later checks run only if earlier ones found none."""
    if not isinstance(env, Environment):
        yield f"it is of type {type(env).__name__}, which is not a subclass of {_kind(Environment)}"
        return
    yield from [*_of_attributes(env)] or [*_of_functions(env)] or [*_of_types(env)]


def _of_attributes(env: Environment) -> Iterator[str]:
    if missing := [name for name in _NEEDED if not hasattr(env, name)]:
        yield f"it does not define {', '.join(missing)}: see {_kind(Environment)}"
        return
    yield from _of_actions(env)
    if env.episode_limit:
        yield (
            f"the trainer sets episode_limit and would overwrite {env.episode_limit}: remove it "
            f"and pass --config.episode_limit={env.episode_limit}"
        )
    if type(env.most_actions) is not int or env.most_actions < 1:
        yield f"most_actions must be a positive integer; it is {env.most_actions!r}"
    if not env.observation or not _maps_names(env.observation, int, tuple):
        yield (
            "observation must map the names of one or more parts to shapes, such as "
            f'{{"place": (6,)}}; it is {env.observation}'
        )
    elif env.landmark is not None:
        yield from _of_landmark(env, env.landmark)
    if not are_sections(env.sections):
        yield "sections must be a tuple of Sections, each with a tuple of Metrics"
        return
    if not is_list(env.health, Range | Trend):
        yield f"health must be a tuple of Ranges and Trends; it is {env.health}"
    tags = [metric.tag for metric in env.metrics]
    if twice := _twice(tags):
        yield f"`sections` declares the metrics {', '.join(twice)} more than once"
    if taken := sorted({*tags} & {*OF_PLAY, *OF_GAMES, *OF_LINES}):
        yield f"`sections` declares {', '.join(taken)}, which the trainer declares itself"
    if env.goal not in (None, *tags):
        yield f"`sections` does not declare the metric {env.goal}, which `goal` names"


def _of_actions(env: Environment) -> Iterator[str]:
    names = env.action_names
    if not is_list(names, str) or not names:
        yield "action_names must be a non-empty tuple of strings"
        return
    if twice := _twice(names):
        yield f"action_names has {', '.join(twice)} more than once"
    kinds = env.action_kinds
    if not _maps_names(kinds, str):
        yield f"`action_kinds` must map the names of kinds to names of actions; it is {kinds}"
        return
    counted = {name for kind in kinds.values() for name in kind}
    if strange := sorted(counted - {*names}):
        yield f"`action_kinds` has names that are not in `action_names`: {', '.join(strange)}"


def are_sections(given: Any) -> bool:
    return is_list(given, Section) and all(is_list(each.metrics, Metric) for each in given)


def is_list(given: Any, kind: Any, form: Any = Sequence) -> bool:
    is_one = isinstance(given, form) and not isinstance(given, str)
    return is_one and all(isinstance(each, kind) for each in given)


def _maps_names(given: Any, kind: Any, form: Any = Sequence) -> bool:
    """Whether it maps names to lists that pass `is_list`."""
    has_names = isinstance(given, Mapping) and is_list([*given], str)
    return has_names and all(is_list(each, kind, form) for each in given.values())


def _of_landmark(env: Environment, landmark: Any) -> Iterator[str]:
    """Checks the parts that turning boards requires (hackmatrix.networks.turning)."""
    if not isinstance(landmark, int | np.integer):
        yield f"`landmark` must be the index of a feature of cells; it is {landmark!r}"
        return
    cells, player = (env.observation.get(part, ()) for part in ("cells", "player"))
    if len(cells) != 3 or not -cells[2] <= landmark < cells[2]:
        yield f"`landmark` is {landmark}, which needs a part cells [rows, columns, features]"
    if len(player) != 1 or player[0] < 2:
        yield "`landmark` needs a part player [numbers] that begins with its row and column"


def _of_functions(env: Environment) -> Iterator[str]:
    """Checks what each function returns, up to the first that cannot be traced."""
    try:
        yield from _of_traced(env)
    except _Untraceable as untraceable:
        yield str(untraceable)
    for name, value in vars(env).items():
        if isinstance(value, jax.core.Tracer):
            yield f"it sets its attribute {name} while it is traced: compute that in __init__"


def _of_traced(env: Environment) -> Iterator[str]:
    """Checks the functions in the order in which they use each other's results."""
    states = _traced("reset", env.reset, _KEYS)
    if found := [*_of_leaves("reset", states)]:
        yield from found
        return
    seen = _traced("encode", env.encode, states)
    if found := [*_of_leaves("encode", seen)]:
        yield from found
    else:
        yield from _of_decoded(env, _traced("decode", env.decode, seen))
    result = _traced("step", env.step, _KEYS, states, _ACTIONS)
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], Step)):
        yield f"step: it must return the next states and a {_kind(Step)}"
        return
    after, step = result
    yield from _of_others("step: its states", after, "those of reset", states)
    yield from _of_step(env, step, seen)
    yield from _of_metrics(env, step)
    if env.can_redraw:
        redrawn = _traced("redrawn", env.redrawn, _KEYS, states)
        yield from _of_others("redrawn: its states", redrawn, "those of reset", states)


def _of_types(env: Environment) -> Iterator[str]:
    """Checks that the functions pass shard_map's type check (`check_vma`), as in training."""
    if not env.types_are_checked:
        return
    mesh, split = AbstractMesh((1,), ("boards",)), PartitionSpec("boards")
    on_devices = functools.partial(jax.shard_map, mesh=mesh, in_specs=split, out_specs=split)
    states = jax.eval_shape(env.reset, _KEYS)
    try:
        jax.eval_shape(on_devices(env.reset), _KEYS)
        jax.eval_shape(on_devices(env.step), _KEYS, states, _ACTIONS)
        jax.eval_shape(on_devices(lambda states: env.decode(env.encode(states))), states)
    except Exception as error:  # of any kind, from code that is not ours
        yield (
            f"it fails the type check of shard_map, as used in training: {plugins.why(error)}. A "
            "loop carry must not start as a constant and then vary among boards; if that is the "
            "only problem, set `types_are_checked = False`"
        )


def _traced(name: str, function: Callable[..., Any], *given: Any) -> Any:
    """Returns the shapes and types of what the function returns."""
    try:
        return jax.eval_shape(function, *given)
    except Exception as error:  # of any kind, as the code is not ours
        raise _Untraceable(
            f"{name}: it cannot be traced for {_BOARDS} boards: {plugins.why(error)}"
        ) from error


def _of_leaves(name: str, tree: Any) -> Iterator[str]:
    for path, leaf in jax.tree.leaves_with_path(tree):
        if leaf.shape[:1] != (_BOARDS,):
            yield (
                f"{name}: {_leaf(path)} has no leading axis of boards: it is {_told(leaf)} for "
                f"{_BOARDS} boards"
            )


def _of_decoded(env: Environment, decoded: Any) -> Iterator[str]:
    if not (
        isinstance(decoded, tuple | list) and len(decoded) == 2 and isinstance(decoded[0], dict)
    ):
        yield "decode: it must return a dict of the parts of the observation, and the mask"
        return
    parts, mask = decoded
    if parts.keys() != env.observation.keys():
        given, declared = (", ".join(sorted(map(str, names))) for names in (parts, env.observation))
        yield f"decode: it returns the parts {given}, but `observation` declares {declared}"
        return
    for name, shape in env.observation.items():
        if not _is(parts[name], jnp.float32, *shape):
            expected = _told(jax.ShapeDtypeStruct((_BOARDS, *shape), jnp.float32))
            yield f"decode: the part {name} must be {expected}, but is {_told(parts[name])}"
    if not _is(mask, jnp.bool_, env.num_actions):
        yield f"decode: the mask must be bool[{_BOARDS}, {env.num_actions}], but is {_told(mask)}"


def _of_others(one: str, given: Any, other: str, expected: Any) -> Iterator[str]:
    """Checks that a pytree has the structure, shapes and types of another."""
    if str(jax.tree.structure(given)) != str(jax.tree.structure(expected)):
        yield f"{one} differ in structure from {other}"
        return
    pairs = zip(jax.tree.leaves_with_path(given), jax.tree.leaves(expected), strict=True)
    for (path, new), old in pairs:
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            yield f"{one} differ from {other}: {_leaf(path)} is {_told(new)}, not {_told(old)}"


def _of_step(env: Environment, step: Step, seen: Any) -> Iterator[str]:
    kinds = {"reward": jnp.float32, "terminated": jnp.bool_, "truncated": jnp.bool_}
    for name, kind in kinds.items():
        yield from _of_number(name, getattr(step, name), kind)
    if env.truncates == (step.final is None):
        yield "step: `final` must be set if `truncates` is True, and None if not"
    elif env.truncates:
        yield from _of_others("step: the values in `final`", step.final, "those of encode", seen)
    shaping: Any = step.shaping
    if env.has_potential == (shaping is None):
        yield "step: `shaping` must be set if `has_potential` is True, and None if not"
    elif shaping is not None and not isinstance(shaping, Shaping):
        yield f"step: `shaping` must be a {_kind(Shaping)}"
    elif env.has_possessions == (shaping is None or shaping.gained is None):
        yield "step: `shaping.gained` must be set if `has_possessions` is True, and None if not"
    elif shaping is not None:
        for name, leaf in vars(shaping).items():
            if leaf is not None:
                yield from _of_number(f"shaping.{name}", leaf, jnp.float32)


def _of_number(name: str, leaf: Any, kind: Any) -> Iterator[str]:
    if not _is(leaf, kind):
        expected = _told(jax.ShapeDtypeStruct((_BOARDS,), kind))
        yield f"step: {name} must be {expected}, one number per board, but is {_told(leaf)}"


def _of_metrics(env: Environment, step: Step) -> Iterator[str]:
    tags: list[str] = []
    for name in _METRICS:
        if not isinstance(told := getattr(step, name), dict) or not is_list([*told], str):
            yield f"step: `{name}` must be a dict of metrics whose keys are tags (strings)"
            return
        for tag, leaf in told.items():
            if getattr(leaf, "shape", None) != (_BOARDS,):
                yield f"step: the metric {tag} must have one number per board, but is {_told(leaf)}"
        if taken := sorted(told.keys() & {*OF_PLAY, *OF_GAMES, *OF_LINES}):
            yield f"step: `{name}` has {', '.join(taken)}, which the trainer logs itself"
        tags += told
    if twice := _twice(tags):
        yield f"step: more than one of {', '.join(_METRICS)} has {', '.join(twice)}: rename one"
    of_games = [*step.each_episode, *OF_PLAY[:3], OF_GAMES[0]]  # the return, the length, the ends
    if twice := _twice([tag.rpartition("/")[2] for tag in of_games]):
        both = ", ".join(f"eval/{name}" for name in twice)
        yield f"step: two metrics would both be logged as {both}: use distinct names"
    if env.goal not in (None, *step.each_episode):
        yield f"step: `each_episode` does not have the metric {env.goal}, which `goal` names"


def _leaf(path: Any) -> str:
    return f"the leaf {jax.tree_util.keystr(path)}" if path else "the array"


def _is(leaf: Any, kind: Any, *shape: int) -> bool:
    """Whether it is an array of this type, and of this shape per board."""
    return getattr(leaf, "shape", None) == (_BOARDS, *shape) and leaf.dtype == kind


def _told(leaf: Any) -> str:
    """Describes an array, for example as float32[2, 6]."""
    return f"{leaf.dtype}{[*leaf.shape]}" if hasattr(leaf, "shape") else str(leaf)


def _twice(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _kind(kind: type) -> str:
    """Returns the full name of the class."""
    return f"{kind.__module__}.{kind.__name__}"
