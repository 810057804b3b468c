"""Records games of a policy, and finds those that a run has recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from hackmatrix.parallel import mesh as meshes
from hackmatrix.replay import animation, html
from hackmatrix.replay.record import Episode, record
from hackmatrix.train.policies.player import Player
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.places import on_disk
from hackmatrix.train.runs.protocol import Unavailable, is_step

if TYPE_CHECKING:
    from hackmatrix.search.planner import Planner

T = TypeVar("T")


def play(
    policy: Policy,
    seed: int,
    number: int,
    greedy: bool = False,
    most_steps: int | None = None,
    planner: Planner | None = None,
) -> Episode:
    """Plays game `number` of a seed. The network runs where its parameters are, the game on a CPU
    if there is one: a single board gains nothing from an accelerator. The planner's games are
    played there, too.
    """
    who = policy.playing(greedy, planner.games if planner else 0)
    title = f"{who}, game {number} of seed {seed}"
    cpu = meshes.local_cpu()
    if planner and cpu:  # both may have been made for an accelerator
        policy = replace(policy, params=jax.device_get(policy.params))
        planner = replace(planner, env=planner.env.on(cpu.platform))
    with jax.default_device(cpu):
        player = Player(policy, seed, number, greedy, planner)
        return record(title, player.choose, player.step_key, most_steps or policy.env.most_actions)


@dataclass(frozen=True)
class Recorded:
    """A game that a run (train/reporting/replays.py) or a notebook can show."""

    episode: Episode

    @property
    def total(self) -> float:
        return self.episode.total

    @property
    def turns(self) -> int:
        return len(self.episode.frames) - 1

    def __repr__(self) -> str:
        told = f"{self.episode.title}: {self.turns} turns, return {self.total:.2f}"
        return f"{told}, {self.episode.end}"

    def _repr_html_(self) -> str:
        """Shows the page in a notebook, in a frame of its own."""
        frame = 'style="width: 100%; max-width: 1100px; height: 760px; border: 0"'
        return f'<iframe {frame} srcdoc="{escape(self.page())}"></iframe>'

    def save(self, file: str | Path) -> Path:
        """Writes the page of the game, or an animation to a file that ends in .gif."""
        file = on_disk(file)
        if file.suffix.lower() == ".gif":
            file.write_bytes(self.film())
        else:
            file.write_text(self.page(), "utf-8")
        return file

    def page(self) -> str:
        return html.page(self.episode)

    def pictures(self, most: int) -> list[np.ndarray]:
        return animation.pictures(self.episode, most)

    def film(self, most: int | None = None) -> bytes:
        return animation.gif(self.episode, most)


def recorded(policy: Policy, seed: int, number: int, most_steps: int | None = None) -> Recorded:
    return Recorded(play(policy, seed, number, most_steps=most_steps))


def newest(run: Run) -> str | None:
    """Returns the newest page of a game in a run's directory or bucket that can be read; None if
    there is none.
    """
    there = run.place / run.replays.name
    names = _if_readable(there.names) or []
    steps = [int(step) for step in (name.removesuffix(".html") for name in names) if is_step(step)]
    pages = (_if_readable((there / f"{step}.html").read) for step in sorted(steps, reverse=True))
    return next((page for page in pages if page is not None), None)


def _if_readable(read: Callable[[], T]) -> T | None:
    """Returns what is read, or None if it is damaged. Raises Unavailable."""
    try:
        return read()
    except Unavailable:
        raise
    except (OSError, ValueError):
        return None
