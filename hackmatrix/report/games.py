"""Recorded games of a policy, and the pages of them that a run has."""

from __future__ import annotations

import jax

from hackmatrix.replay import html
from hackmatrix.replay.record import MOST_STEPS, Decision, Episode, record
from hackmatrix.search.planner import Planner
from hackmatrix.train.policies.player import Player
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.runs.directory import Run


def play(
    policy: Policy,
    seed: int,
    number: int,
    greedy: bool = False,
    most_steps: int = MOST_STEPS,
    planner: Planner | None = None,
) -> Episode:
    """Game `number` of a seed. The network computes where its parameters are, the game on a CPU if
    there is one: a single board gains nothing from an accelerator.
    """
    title = f"{policy.title}, game {number} of seed {seed}"
    with jax.default_device(_cpu()):
        player = Player(policy, seed, number, greedy, planner)
        decide = lambda *seen: Decision(*player.choose(*seen))  # noqa: E731
        return record(title, decide, player.step_key, most_steps)


def as_page(
    policy: Policy, seed: int, number: int, most_steps: int = MOST_STEPS
) -> tuple[str, float]:
    """A game as a page, and its return."""
    episode = play(policy, seed, number, most_steps=most_steps)
    return html.page(episode), episode.total


def newest(run: Run) -> str | None:
    """The newest of the pages that the run has left behind."""
    pages = [each for each in run.replays.glob("*.html") if each.stem.isdecimal()]
    if not pages:
        return None
    return max(pages, key=lambda each: int(each.stem)).read_text(encoding="utf-8")


def _cpu() -> jax.Device | None:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS names others alone
        return None
