"""Weights & Biases: a run's metrics, configuration and checkpoints as a page on the web.

The package wandb is an extra, and is imported only where it is asked for. With WANDB_MODE=offline
everything stays in the run directory until `wandb sync` sends it.
"""

from __future__ import annotations

import io
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any

from hackmatrix.train.checkpoints import shelf
from hackmatrix.train.config import ConfigError
from hackmatrix.train.reporting.sinks import Game, Metrics, known
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.protocol import Place
from hackmatrix.train.runs.provenance import provenance

_ID = "wandb_id"  # a file in the run directory
_OFFLINE = ("offline", "dryrun", "disabled")
_MOST_TURNS = 100  # of a film
_INIT_SECONDS = 30  # for an answer at the start
_LOOKS_EVERY = 60.0  # seconds, for a checkpoint to upload
_FINISH_SECONDS = 120  # for the rest to arrive at the end


class Unreachable(OSError):
    """wandb or its server failed; one line says how."""


def is_installed() -> bool:
    try:
        metadata.version("wandb")  # a folder of that name can be imported, too
    except metadata.PackageNotFoundError:
        return False
    return True


def check() -> None:
    """ConfigError, before a run starts, where wandb is missing or nobody is logged in."""
    if not is_installed():
        raise ConfigError(
            ["wandb=True needs the package wandb: pip install -e '.[wandb]' -c constraints.txt"]
        )
    wandb = _quiet_wandb()
    mode = wandb.setup().settings.mode
    if mode not in _OFFLINE and not wandb.login(prompt=False, verify=False):
        raise ConfigError(
            [
                "wandb=True but nobody is logged in: run `wandb login`, or set WANDB_API_KEY, or "
                "WANDB_MODE=offline to send it later"
            ]
        )


class WeightsAndBiases:
    """A sink. The curves of a run that is resumed go on under the id kept in its directory; with
    `rewind_to` they forget what came after that step.
    """

    def __init__(
        self, run: Run, rewind_to: int | None = None, *, say: Callable[[str], None] = print
    ) -> None:
        self._run, self._rewind_to, self._say = run, rewind_to, say
        self._page: Any = None
        self._uploaded: Place | None = None
        self._looked_at = -_LOOKS_EVERY

    def write(self, step: int, metrics: Metrics) -> None:
        with _as_unreachable():
            if self._page is None:
                self._page = self._open()
            self._page.log(known(metrics), step=step, commit=True)
            if time.monotonic() - self._looked_at >= _LOOKS_EVERY:
                self._upload(self._page)
                self._looked_at = time.monotonic()

    def show_game(self, step: int, game: Game) -> None:
        import wandb

        with _as_unreachable():
            if self._page is None:
                self._page = self._open()
            film = io.BytesIO(game.film(_MOST_TURNS))
            caption = f"step {step:,}, return {game.total:.2f}"
            # Of the step after the newest: pages do not go back.
            self._page.log({"game": wandb.Video(film, caption, format="gif")})

    def close(self) -> None:
        page, self._page = self._page, None
        if page is None:
            return
        with _as_unreachable():
            self._upload(page)
            try:
                page.finish()
            except TimeoutError as error:
                rest = f"{self._run.directory}/wandb/run-*-{page.id}"
                raise TimeoutError(
                    f"the upload is incomplete; `wandb sync {rest}` sends the rest"
                ) from error

    def _open(self) -> Any:
        place, config = self._run.directory / _ID, self._run.config
        before = place.read_text().strip() if place.exists() else None
        rewinds = before is not None and self._rewind_to is not None
        page = _quiet_wandb().init(
            dir=self._run.directory,
            project=config.project,
            entity=config.entity,
            name=self._run.name,
            id=before,
            resume=None if rewinds else "allow",
            resume_from=f"{before}?_step={self._rewind_to}" if rewinds else None,
            config={**config.settings(), "provenance": provenance()},
        )
        place.write_text(f"{page.id}\n")
        where = page.url or f"offline, `wandb sync {page.settings.sync_dir}` sends it"
        self._say(f"Weights & Biases: {where}")
        return page

    def _upload(self, page: Any) -> None:
        """The newest checkpoint on the disk, unless it was uploaded before."""
        import wandb

        if self._run.config.no_artifact:
            return
        try:
            steps = shelf.steps(self._run.checkpoints)
        except OSError:  # of a bucket that is away; it is tried again
            return
        if not steps:
            return
        newest = self._run.checkpoints / str(steps[-1])
        if newest == self._uploaded:
            return
        artifact = wandb.Artifact(
            f"{self._run.name}-checkpoint", "checkpoint", metadata={"step": int(newest.name)}
        )
        with suppress(FileNotFoundError):  # newer ones have taken its place meanwhile
            if isinstance(newest, Bucket):
                artifact.add_reference(str(newest), checksum=False)  # it is at hand there
            else:
                artifact.add_dir(str(newest))
            page.log_artifact(artifact, aliases=["latest", f"step-{newest.name}"])
            self._uploaded = newest


def _quiet_wandb() -> Any:
    """The package, set up so that our console alone speaks, and that neither the start nor the end
    of a run waits for ever.
    """
    import wandb

    wandb.setup(
        wandb.Settings(
            silent=True,
            console="off",
            init_timeout=_INIT_SECONDS,
            finish_timeout=_FINISH_SECONDS,
            finish_timeout_raises=True,
        )
    )
    return wandb


@contextmanager
def _as_unreachable() -> Iterator[None]:
    """Any error of wandb becomes an Unreachable, with which the run goes on."""
    try:
        yield
    except Exception as error:
        text = textwrap.shorten(str(error), 200) or type(error).__name__
        raise Unreachable(text) from error
