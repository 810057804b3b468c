"""A policy as plain arrays in an .npz file, for programs without JAX.

format           1
env              what it plays
run, step        the run it is from, and the environment step of its checkpoint
compute_dtype    the type of the products when it was trained
layerN.weights   f32[inputs, outputs] of hidden layer N (from 0), and
layerN.bias      f32[outputs]: hidden = max(0, hidden @ weights + bias)
actor.weights, actor.bias      logits of the actions from the last hidden layer
critic.weights, critic.bias    the value of what is seen, in units of reward
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
_HEADS = ("actor", "critic")
_PARTS = {"weights": "kernel", "bias": "bias"}


class PolicyFileError(Exception):
    """A file that holds no policy; one line says why."""


@dataclass(frozen=True)
class About:
    """What is known of a policy besides its parameters."""

    env: str
    run: str
    step: int
    compute_dtype: str
    hidden_dim: int
    num_layers: int


def write(file: Path, params: Any, about: About) -> None:
    """Writes the file; whoever reads meanwhile finds the old one or the new one."""
    layers = params["params"]
    named = {f"layer{number}": f"Dense_{number}" for number in range(about.num_layers)}
    named |= {head: head for head in _HEADS}
    values = {
        f"{name}.{part}": np.asarray(layers[ours][key], np.float32)
        for name, ours in named.items()
        for part, key in _PARTS.items()
    }
    fresh = file.with_name(f"{file.name}.new")
    with fresh.open("wb") as opened:
        np.savez(
            opened, format=np.int32(FORMAT), env=np.str_(about.env), run=np.str_(about.run),
            step=np.int64(about.step), compute_dtype=np.str_(about.compute_dtype),
            allow_pickle=False, **values,
        )  # fmt: skip
    fresh.replace(file)


def read(file: Path) -> tuple[Any, About]:
    """The parameters, as the network takes them, and what is known of them."""
    try:
        with np.load(file, allow_pickle=False) as opened:
            arrays = dict(opened)
        return _parameters(arrays), _about(arrays)
    except FileNotFoundError:
        raise PolicyFileError(f"there is no file {file}") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise PolicyFileError(f"{file} is no policy that launch.export wrote: {error}") from error


def _parameters(arrays: Mapping[str, np.ndarray]) -> Any:
    if int(arrays["format"]) != FORMAT:
        raise ValueError(f"its format is {arrays['format']}, not {FORMAT}")
    named = {f"layer{number}": f"Dense_{number}" for number in range(_layers(arrays))}
    named |= {head: head for head in _HEADS}
    return {
        "params": {
            ours: {key: arrays[f"{name}.{part}"] for part, key in _PARTS.items()}
            for name, ours in named.items()
        }
    }


def _about(arrays: Mapping[str, np.ndarray]) -> About:
    return About(
        env=str(arrays["env"]),
        run=str(arrays["run"]),
        step=int(arrays["step"]),
        compute_dtype=str(arrays["compute_dtype"]),
        hidden_dim=arrays["layer0.bias"].size,
        num_layers=_layers(arrays),
    )


def _layers(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(name.startswith("layer") and name.endswith(".bias") for name in arrays)
