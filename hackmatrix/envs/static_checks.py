"""Whether an environment is what it declares to be, as far as shapes and types tell: its functions
are traced for a few boards, and nothing is played. Training would stumble over these faults, and
`hackmatrix.envs.conformance` begins with them.
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
from hackmatrix.envs.metrics import OF_GAMES, OF_PLAY, Metric, Range, Section, Trend
from hackmatrix.envs.protocol import Environment, Shaping, Step
from hackmatrix.errors import UserError

_BOARDS = 2
_KEYS = jax.ShapeDtypeStruct((_BOARDS, 2), jnp.uint32)
_ACTIONS = jax.ShapeDtypeStruct((_BOARDS,), jnp.int32)
_NEEDED = "action_names", "observation", "truncates"
_METRICS = "each_step", "each_episode", "highest"


class _Untraceable(Exception):
    """A function that fails; the message is the line that says so."""


def check(env: Environment) -> None:
    """Raises UserError, with all that is wrong."""
    if found := list(faults(env)):
        more = "hackmatrix.envs.conformance.check(env) plays it, and finds what else breaks"
        raise UserError("\n".join([*(f"{env.name}: {fault}" for fault in found), more]))


def faults(env: Any) -> Iterator[str]:
    """All that is wrong, a line each."""
    if not isinstance(env, Environment):
        yield f"it is of {type(env).__name__}, which is not a subclass of {_kind(Environment)}"
        return
    yield from [*_of_attributes(env)] or [*_of_functions(env)] or [*_of_types(env)]


def _of_attributes(env: Environment) -> Iterator[str]:
    if missing := [name for name in _NEEDED if not hasattr(env, name)]:
        yield f"it lacks {', '.join(missing)}, which {_kind(Environment)} explains"
        return
    yield from _of_actions(env)
    if env.episode_limit:
        yield (
            f"episode_limit is set by the trainer, which would overwrite {env.episode_limit}: "
            f"leave it out, and give --config.episode_limit={env.episode_limit}"
        )
    if type(env.most_actions) is not int or env.most_actions < 1:
        yield f"most_actions must be a number of actions, 1 at least; it is {env.most_actions!r}"
    if not env.observation or not _maps_names(env.observation, int, tuple):
        yield (
            "observation must map the names of its parts, one at least, to shapes, such as "
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
    if taken := sorted({*tags} & {*OF_PLAY, *OF_GAMES}):
        yield f"`sections` declares {', '.join(taken)}, which the trainer declares itself"
    if env.goal not in (None, *tags):
        yield f"`sections` does not declare the metric {env.goal}, which `goal` names"


def _of_actions(env: Environment) -> Iterator[str]:
    names = env.action_names
    if not is_list(names, str) or not names:
        yield "action_names must be a tuple of names, one at least"
        return
    if twice := _twice(names):
        yield f"action_names has {', '.join(twice)} more than once"
    kinds = env.action_kinds
    if not _maps_names(kinds, str):
        yield f"`action_kinds` must map the names of kinds to names of actions; it is {kinds}"
        return
    counted = {name for kind in kinds.values() for name in kind}
    if strange := sorted(counted - {*names}):
        yield f"`action_kinds` has what `action_names` lacks: {', '.join(strange)}"


def are_sections(given: Any) -> bool:
    return is_list(given, Section) and all(is_list(each.metrics, Metric) for each in given)


def is_list(given: Any, kind: Any, form: Any = Sequence) -> bool:
    is_one = isinstance(given, form) and not isinstance(given, str)
    return is_one and all(isinstance(each, kind) for each in given)


def _maps_names(given: Any, kind: Any, form: Any = Sequence) -> bool:
    """Whether it maps names to such lists."""
    has_names = isinstance(given, Mapping) and is_list([*given], str)
    return has_names and all(is_list(each, kind, form) for each in given.values())


def _of_landmark(env: Environment, landmark: Any) -> Iterator[str]:
    """Of the parts that turned boards need (hackmatrix.networks.turning)."""
    if not isinstance(landmark, int | np.integer):
        yield f"`landmark` must be the number of a feature of cells; it is {landmark!r}"
        return
    cells, player = (env.observation.get(part, ()) for part in ("cells", "player"))
    if len(cells) != 3 or not -cells[2] <= landmark < cells[2]:
        yield f"`landmark` is {landmark}, but no part cells [rows, columns, features] has that one"
    if len(player) != 1 or player[0] < 2:
        yield "with a `landmark`, a part player [numbers] begins with the player's row and column"


def _of_functions(env: Environment) -> Iterator[str]:
    """Of what each gives for some boards, as far as they can be traced."""
    try:
        yield from _of_traced(env)
    except _Untraceable as untraceable:
        yield str(untraceable)


def _of_traced(env: Environment) -> Iterator[str]:
    """What the next function is given has to be sound."""
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
        yield f"step: it must give the states after it and a {_kind(Step)}"
        return
    after, step = result
    yield from _of_others("step: the states after it", after, "those of reset", states)
    yield from _of_step(env, step, seen)
    yield from _of_metrics(env, step)
    if env.tells_what_is_hidden:
        redrawn = _traced("redrawn", env.redrawn, _KEYS, states)
        yield from _of_others("redrawn: the states", redrawn, "those of reset", states)


def _of_types(env: Environment) -> Iterator[str]:
    """Of what shard_map takes for a mistake, where it checks the types of what differs among
    devices, as it does in training.
    """
    if not env.types_are_checked:
        return
    mesh, split = AbstractMesh((1,), ("boards",)), PartitionSpec("boards")
    on_devices = functools.partial(jax.shard_map, mesh=mesh, in_specs=split, out_specs=split)
    states = jax.eval_shape(env.reset, _KEYS)
    try:
        jax.eval_shape(on_devices(env.reset), _KEYS)
        jax.eval_shape(on_devices(env.step), _KEYS, states, _ACTIONS)
        jax.eval_shape(on_devices(lambda states: env.decode(env.encode(states))), states)
    except Exception as error:  # of code that is not ours, and that is sound by itself
        why = (str(error).splitlines() or [""])[0]
        yield (
            f"within shard_map, which checks types in training, it fails: {type(error).__name__}: "
            f"{why}{plugins.line_of(error)}. No loop may begin with a constant and go on with what "
            "differs among boards; if nothing else is the matter, set `types_are_checked = False`"
        )


def _traced(name: str, function: Callable[..., Any], *given: Any) -> Any:
    """What the function gives, as shapes and types."""
    try:
        return jax.eval_shape(function, *given)
    except Exception as error:  # of code that is not ours, so it may be any
        raise _Untraceable(
            f"{name}: it cannot be traced for {_BOARDS} boards: {plugins.why(error)}"
        ) from error


def _of_leaves(name: str, tree: Any) -> Iterator[str]:
    for path, leaf in jax.tree.leaves_with_path(tree):
        if leaf.shape[:1] != (_BOARDS,):
            yield (
                f"{name}: {_leaf(path)} lacks the axis of the boards: it is {_told(leaf)} for "
                f"{_BOARDS} boards"
            )


def _of_decoded(env: Environment, decoded: Any) -> Iterator[str]:
    if not (
        isinstance(decoded, tuple | list) and len(decoded) == 2 and isinstance(decoded[0], dict)
    ):
        yield "decode: it must give the parts of the observation by name, and the mask"
        return
    parts, mask = decoded
    if parts.keys() != env.observation.keys():
        given, declared = (", ".join(sorted(map(str, names))) for names in (parts, env.observation))
        yield f"decode: it gives the parts {given}, but `observation` declares {declared}"
        return
    for name, shape in env.observation.items():
        if not _is(parts[name], jnp.float32, *shape):
            expected = _told(jax.ShapeDtypeStruct((_BOARDS, *shape), jnp.float32))
            yield f"decode: the part {name} must be {expected}, but is {_told(parts[name])}"
    if not _is(mask, jnp.bool_, env.num_actions):
        yield f"decode: the mask must be bool[{_BOARDS}, {env.num_actions}], but is {_told(mask)}"


def _of_others(one: str, given: Any, other: str, expected: Any) -> Iterator[str]:
    """Of a tree that must be like another, leaf by leaf."""
    if str(jax.tree.structure(given)) != str(jax.tree.structure(expected)):
        yield f"{one} have another structure than {other}"
        return
    pairs = zip(jax.tree.leaves_with_path(given), jax.tree.leaves(expected), strict=True)
    for (path, new), old in pairs:
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            yield f"{one} differ from {other}: {_leaf(path)} is {_told(new)}, there {_told(old)}"


def _of_step(env: Environment, step: Step, seen: Any) -> Iterator[str]:
    kinds = {"reward": jnp.float32, "terminated": jnp.bool_, "truncated": jnp.bool_}
    for name, kind in kinds.items():
        yield from _of_number(name, getattr(step, name), kind)
    if env.truncates == (step.final is None):
        yield "step: `final` must be given by an environment that truncates, and by no other"
    elif env.truncates:
        yield from _of_others("step: the ends in `final`", step.final, "what `encode` gives", seen)
    shaping: Any = step.shaping
    if env.has_potential == (shaping is None):
        yield "step: `shaping` must be given by an environment that has a potential, by no other"
    elif shaping is not None and not isinstance(shaping, Shaping):
        yield f"step: `shaping` must be a {_kind(Shaping)}"
    elif env.has_possessions == (shaping is None or shaping.gained is None):
        yield "step: `gained` must be given by an environment that has possessions, by no other"
    elif shaping is not None:
        for name, leaf in vars(shaping).items():
            if leaf is not None:
                yield from _of_number(f"shaping.{name}", leaf, jnp.float32)


def _of_number(name: str, leaf: Any, kind: Any) -> Iterator[str]:
    if not _is(leaf, kind):
        expected = _told(jax.ShapeDtypeStruct((_BOARDS,), kind))
        yield f"step: {name} must be {expected}, a number a board, but is {_told(leaf)}"


def _of_metrics(env: Environment, step: Step) -> Iterator[str]:
    tags: list[str] = []
    for name in _METRICS:
        if not isinstance(told := getattr(step, name), dict) or not is_list([*told], str):
            yield f"step: `{name}` must be a dict of metrics by tag, each a string"
            return
        for tag, leaf in told.items():
            if getattr(leaf, "shape", None) != (_BOARDS,):
                yield f"step: the metric {tag} must have one number a board, but is {_told(leaf)}"
        if taken := sorted(told.keys() & {*OF_PLAY, *OF_GAMES}):
            yield f"step: `{name}` tells {', '.join(taken)}, which the trainer tells itself"
        tags += told
    if twice := _twice(tags):
        yield f"step: two of {', '.join(_METRICS)} tell {', '.join(twice)}: give them two tags"
    of_games = [*step.each_episode, *OF_PLAY[:3], OF_GAMES[0]]  # the return, the length, the ends
    if twice := _twice([tag.rpartition("/")[2] for tag in of_games]):
        yield f"step: of two metrics named {', '.join(twice)} one would be lost: a run's eval/NAME"
    if env.goal not in (None, *step.each_episode):
        yield f"step: no episode ends with the metric {env.goal}, which `goal` names"


def _leaf(path: Any) -> str:
    return f"the leaf {jax.tree_util.keystr(path)}" if path else "the array"


def _is(leaf: Any, kind: Any, *shape: int) -> bool:
    """Whether it is an array of this type and shape, one a board."""
    return getattr(leaf, "shape", None) == (_BOARDS, *shape) and leaf.dtype == kind


def _told(leaf: Any) -> str:
    """Such as float32[2, 6]."""
    return f"{leaf.dtype}{[*leaf.shape]}" if hasattr(leaf, "shape") else str(leaf)


def _twice(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _kind(kind: type) -> str:
    """Where the class is to be found."""
    return f"{kind.__module__}.{kind.__name__}"
