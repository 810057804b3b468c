"""A trained network as plain arrays in an .npz file, for any program that reads NumPy's files.

format              2
about               JSON of `About`: what the network plays, what it is built from, where it is from
params/LAYER/NAME   the parameters f32 of the torso and of the heads: "actor" gives the logits of
                    the actions, "critic" the value of an observation in units of reward

Files of format 1, which hold an mlp, can be read too: the arrays env, run, step and compute_dtype,
hidden layers layerN.weights and layerN.bias, and the heads actor.* and critic.*
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import shlex
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix.errors import UserError
from hackmatrix.networks import Spec, check_types
from hackmatrix.networks.in_numpy import agree
from hackmatrix.networks.turning import Turning

if TYPE_CHECKING:
    from hackmatrix.envs import Environment

FORMAT = 2
EXPORTED, COMPILED = "policy.npz", "policy.jax"  # the files in a folder that launch.export wrote
SHIPPED = "policies"  # policies/NAME is a shipped agent: one that comes with the trainer
_FOLDER = Path(__file__).parents[2] / SHIPPED
_RUNS = Path("runs")  # the default --workdir
_PREFIX = "params/"
# What reading a damaged file may raise; RuntimeError if it looks encrypted.
_DAMAGED = (
    OSError, ValueError, TypeError, AttributeError, RuntimeError, EOFError, MemoryError,
    zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip
_DEFAULT_NAMES = "observation", "action"  # of the part and actions of format 1
Params = dict[str, Any]


@dataclass(frozen=True)
class About:
    """The metadata of a trained network: its environment, its actions, the shapes of the parts of
    observations, and the run and step of the checkpoint. The fields from `gamma` to
    `owned_reward_end` are the `hackmatrix.rl.reward_signal.RewardSignal` of its values. Fields that
    a file lacks have the defaults; None is not written. `landmark` is the feature of `cells` that
    boards can be turned towards. A network from outside of this package may have `in_numpy`,
    MODULE:NAME of its forward pass without JAX, and `example`, an observation with its logits.
    """

    env: str
    observation: dict[str, tuple[int, ...]]
    actions: tuple[str, ...]
    run: str
    step: int
    spec: Spec
    gamma: float = 0.99
    potential_shaping: bool = False
    compress_rewards: bool = False
    owned_reward_end: float = 0.0
    landmark: int | None = None
    in_numpy: str | None = None
    example: tuple[list[float], list[float]] | None = None

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def turning(self) -> Turning | None:
        return Turning.of(self.landmark, self.actions) if self.spec.turn_boards else None

    def check_plays(self, env: Environment, name: str) -> None:
        """Raises UserError if the environment has other observations or actions than the policy,
        which messages call `name`. Rewards may differ.
        """
        part, action = _DEFAULT_NAMES
        if (
            self.env == env.name
            and list(self.observation) == [part]
            and self.actions[0] == f"{action} 0"
        ):
            sizes = math.prod(self.observation[part]), len(self.actions)
            fits = sizes == (env.observation_size, env.num_actions)
        else:
            theirs = list(self.observation.items()), self.actions
            fits = theirs == (list(env.observation.items()), tuple(env.action_names))
        if not fits:
            policy_has = _sizes(self.observation, self.actions)
            env_has = _sizes(env.observation, env.action_names)
            if policy_has == env_has:
                pairs = enumerate(zip(self.actions, env.action_names, strict=True))
                number, names = next(each for each in pairs if each[1][0] != each[1][1])
                policy_has, env_has = (f"{each!r} as action {number}" for each in names)
            raise UserError(
                f"{name} plays {self.env} with {policy_has}; "
                f"it cannot play {env.name} with {env_has}"
            )

    def check_example(self, logits: np.ndarray) -> None:
        """Raises ValueError if the network gave other logits for the example at its export."""
        if self.example and not agree(logits, np.array(self.example[1], np.float32)):
            raise ValueError("its logits for an observation are not those of the export")


def content(params: Params, about: About) -> bytes:
    """Returns the bytes of a file with these parameters and metadata."""
    said = {name: value for name, value in asdict(about).items() if value is not None}
    header = {"format": np.int32(FORMAT), "about": np.str_(json.dumps(said))}
    archive = io.BytesIO()
    np.savez_compressed(archive, allow_pickle=False, **header, **_arrays(params))
    return archive.getvalue()


def as_read(params: Params) -> Params:
    """Returns the parameters as `read` would: nested dicts only, split at each slash in a name."""
    return {"params": _nested(_arrays(params))}


def is_shipped(name: str) -> bool:
    """Returns whether `name` is policies/NAME of a shipped agent. A NAME that is not shipped counts
    too, unless the user has a folder of that name.
    """
    folder, _, rest = os.path.normpath(name).partition("/")
    is_name = folder == SHIPPED and bool(rest) and "/" not in rest and not rest.endswith(".npz")
    return is_name and ((_FOLDER / f"{rest}.npz").exists() or not os.path.isdir(name))


def read(name: str | Path) -> tuple[Params, About]:
    """Reads a file's parameters and metadata. `name` is its path, the folder that launch.export
    wrote it to, or policies/NAME.
    """
    file = _path(str(name))
    try:
        with file.open("rb") as opened:
            if not zipfile.is_zipfile(opened):
                raise _not_a_policy(file, "it is not an .npz file")
            opened.seek(0)
            arrays = dict(np.load(opened, allow_pickle=False))
        number = int(arrays["format"])
        if number == FORMAT:
            return {"params": _nested(arrays)}, _about(file, json.loads(str(arrays["about"])))
        if number == 1:
            return {"params": _nested_1(arrays)}, _about_1(arrays)
    except FileNotFoundError:
        raise UserError(f"there is no file {file}{_suggestion(file)}") from None
    except PermissionError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    except KeyError as error:
        raise _not_a_policy(file, f"it has no array {error}") from error
    except _DAMAGED as error:
        raise _not_a_policy(file, str(error)) from error
    raise UserError(f"{file} has format {number}; this version reads 1 and {FORMAT}")


def _path(name: str) -> Path:
    """Returns the path that a name stands for; the file need not exist."""
    if is_shipped(name):
        return _shipped(os.path.basename(os.path.normpath(name)))
    if re.match(r"\w+:/", name):
        raise UserError(
            f"{name}: policies are read from local files only; python -m launch.export "
            "--run=gs://BUCKET/... writes the policy of a run in a bucket to one"
        )
    file = Path(os.path.expanduser(name))
    if os.path.isdir(file):
        file /= EXPORTED
    if file.name == COMPILED:
        raise UserError(f"{file} is for programs without this package; use {EXPORTED} beside it")
    return file


def _shipped(name: str) -> Path:
    """Returns the file of a shipped agent."""
    file = _FOLDER / f"{name}.npz"
    if file.exists():
        return file
    if agents := ", ".join(f"{SHIPPED}/{each.stem}" for each in sorted(_FOLDER.glob("*.npz"))):
        raise UserError(f"there is no {SHIPPED}/{name}: choose one of {agents}")
    raise UserError(
        f"there is no {SHIPPED}/{name}: this installation has no shipped agents; they come with a "
        "checkout (pip install -e .)"
    )


def shipped_as(name: str, *, needs_run: bool = False) -> str:
    """Returns the end of an error message that suggests the shipped agent of this name, or "" if
    there is none. With `needs_run` it says which commands accept an agent in place of a run.
    """
    agent = Path(name).name.removesuffix(".npz")
    if not (_FOLDER / f"{agent}.npz").exists():
        return ""
    if not needs_run:
        return f"; did you mean {SHIPPED}/{agent}?"
    return (
        f"; {SHIPPED}/{agent} is an agent, not a run: evaluate, watch, play and export take it, "
        f"and a new run begins with it by --config.start_from={SHIPPED}/{agent}"
    )


def _suggestion(missing: Path) -> str:
    """Returns the end of an error message that suggests what to name instead of a missing file."""
    if shipped := shipped_as(missing.name):
        return shipped
    for folder in (missing.parent, _RUNS / missing):
        if (folder / "config.json").exists():
            run = shlex.quote(str(folder))
            return f"; {folder} is a run: python -m launch.export --run={run} writes its policy"
    return ""


def _not_a_policy(file: Path, why: str) -> UserError:
    return UserError(f"{file} is not a policy that launch.export wrote: {why}")


def _sizes(observation: Mapping[str, tuple[int, ...]], actions: Sequence[str]) -> str:
    parts = ", ".join(f"{name} {list(shape)}" for name, shape in observation.items())
    return f"observations of {parts} and {len(actions)} actions"


def _arrays(params: Params) -> dict[str, np.ndarray]:
    """Returns the parameters by their names in a file, as float32."""
    named = by_path(params["params"])
    return {f"{_PREFIX}{name}": np.asarray(leaf, np.float32) for name, leaf in named.items()}


def by_path(tree: Any) -> dict[str, Any]:
    """Returns the leaves by their paths, as files name them."""
    from jax import tree_util  # only here: programs that play with NumPy alone do not need it

    leaves = tree_util.tree_leaves_with_path(tree)
    return {tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def _nested(arrays: Mapping[str, np.ndarray]) -> Params:
    tree: Params = {}
    for name, value in arrays.items():
        if name.startswith(_PREFIX):
            *path, last = name.removeprefix(_PREFIX).split("/")
            branch = tree
            for part in path:
                branch = branch.setdefault(part, {})
            branch[last] = value
    return tree


def _about(file: Path, saved: dict[str, Any]) -> About:
    known = {each.name for kind in (About, Spec) for each in fields(kind)}
    if newer := sorted({*saved, *saved["spec"]} - known):
        raise UserError(
            f"{file} was written by a newer version of this program: it has unknown fields "
            f"({', '.join(newer)})"
        )
    observation = {name: tuple(shape) for name, shape in saved["observation"].items()}
    rest = {"observation": observation, "actions": tuple(saved["actions"])}
    return About(**{**saved, **rest, "spec": Spec(**saved["spec"])})


def _nested_1(arrays: Mapping[str, np.ndarray]) -> Params:
    named = {f"layer{number}": f"Dense_{number}" for number in range(_layers_1(arrays))}
    named |= {head: head for head in ("actor", "critic")}
    return {
        ours: {"kernel": arrays[f"{name}.weights"], "bias": arrays[f"{name}.bias"]}
        for name, ours in named.items()
    }


def _about_1(arrays: Mapping[str, np.ndarray]) -> About:
    inputs, width = arrays["layer0.weights"].shape
    actions = arrays["actor.bias"].size
    return About(
        env=str(arrays["env"]),
        observation={_DEFAULT_NAMES[0]: (inputs,)},
        actions=tuple(f"{_DEFAULT_NAMES[1]} {number}" for number in range(actions)),
        run=str(arrays["run"]),
        step=int(arrays["step"]),
        spec=Spec(
            network="mlp",
            hidden_dim=width,
            num_layers=_layers_1(arrays),
            channels=1,
            separate_critic=False,
            compute_dtype=str(arrays["compute_dtype"]),
        ),
    )


def _layers_1(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(name.startswith("layer") and name.endswith(".bias") for name in arrays)
