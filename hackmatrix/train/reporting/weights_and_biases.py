"""Weights & Biases: a run's metrics, configuration and checkpoints as a page on the web.

The package wandb is an extra, and is imported only where it is asked for. With WANDB_MODE=offline
the page stays in the run directory until `wandb sync` sends it. It has no checkpoints then: wandb
would keep a copy of each outside of the run, for ever.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.train.checkpoints import shelf
from hackmatrix.train.reporting.sinks import Game, Metrics, known, told_before
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.provenance import provenance

_ID = "wandb_id"  # a file in the run directory
_OFFLINE = ("offline", "dryrun", "disabled")
_MOST_TURNS = 100  # of a film
_INIT_SECONDS = 30  # for an answer at the start
_LOOKS_EVERY = 60.0  # seconds, times those that it takes, for a checkpoint to upload
_LATER = 0.1  # of the steps of the last one that was: a long run uploads few
_FINISH_SECONDS = 120  # for the rest to arrive at the end


def is_installed() -> bool:
    try:
        metadata.version("wandb")  # a folder of that name can be imported, too
    except metadata.PackageNotFoundError:
        return False
    return True


def check() -> None:
    """UserError, before a run starts, where wandb is missing or nobody is logged in."""
    if not is_installed():
        raise UserError(
            "wandb=True needs the package wandb: pip install -e '.[wandb]' -c constraints.txt"
        )
    wandb = _quiet_wandb()
    mode = wandb.setup().settings.mode
    if mode not in _OFFLINE and not wandb.login(prompt=False, verify=False):
        raise UserError(
            "wandb=True but nobody is logged in: run `wandb login`, or set WANDB_API_KEY, or "
            "WANDB_MODE=offline to send it later"
        )


class WeightsAndBiases:
    """A sink. The curves of a run that is resumed go on under the id kept in its directory; with
    `rewind_to` they forget what came after that step. Whenever its page is opened it is told what
    it lacks of metrics.jsonl.
    """

    def __init__(
        self, run: Run, rewind_to: int | None = None, *, say: Callable[[str], None] = print
    ) -> None:
        self._run, self._rewind_to, self._say = run, rewind_to, say
        self._page: Any = None
        self._id: str | None = None  # of a page that was opened, also where it could not be kept
        self._uploaded = -1  # the step of the last checkpoint that was
        self._has_told_of_uploads = False
        self._looks_at = 0.0

    def write(self, step: int, metrics: Metrics) -> None:
        self.write_late(step, metrics, time.time())

    def write_late(self, step: int, metrics: Metrics, at: float) -> None:
        page = self._opened(step - 1)
        _log(page, step, known(metrics), at)
        if time.monotonic() >= self._looks_at:
            self._try_to_upload(page, _LATER)

    def show_game(self, step: int, game: Game) -> None:
        import wandb

        film = io.BytesIO(game.film(_MOST_TURNS))
        caption = f"step {step:,}, return {game.total:.2f}"
        # Of the step after the newest: pages do not go back.
        self._opened(None).log({"game": wandb.Video(film, caption, format="gif")})

    def close(self) -> None:
        page, self._page = self._page, None
        if page is None:
            return
        self._try_to_upload(page, later=0)
        try:
            page.finish()
        except TimeoutError as error:
            rest = f"{self._run.directory}/wandb/run-*-{page.id}"
            raise TimeoutError(
                f"the upload is incomplete; `wandb sync {rest}` sends the rest"
            ) from error

    def _opened(self, last_step: int | None) -> Any:
        """The page. What it lacks up to this step it is told as it is opened: lines of a session in
        which nobody answered, or that were still to be sent when a process was killed.
        """
        if self._page is None:
            self._page = page = self._open()
            if page.settings.mode not in _OFFLINE:  # which does not know what the page has
                for step, metrics, at in told_before(self._run.metrics, last_step):
                    _log(page, step, metrics, at)
        return self._page

    def _open(self) -> Any:
        place, config = self._run.directory / _ID, self._run.config
        before = self._id or (place.read_text().strip() if place.exists() else "") or None
        rewinds = before is not None and self._rewind_to is not None
        wandb = _quiet_wandb()
        try:
            page = wandb.init(
                dir=self._run.directory,
                project=config.project,
                entity=config.entity,
                name=self._run.name,
                id=before,
                resume=None if rewinds else "allow",
                resume_from=f"{before}?_step={self._rewind_to}" if rewinds else None,
                config={**config.settings(), "provenance": provenance()},
            )
            self._id, self._rewind_to = page.id, None
            atomic_files.write(place, f"{page.id}\n")
        except Exception:
            with suppress(Exception):  # else the id counts as in use, and who died is asked again
                wandb.teardown()
            raise
        sync = f"`wandb sync {page.settings.sync_dir}` sends it"
        where = page.url or f"offline, {sync}, but no checkpoints"
        self._say(f"Weights & Biases: {where}")
        heard = _Heard(lambda words: self._say(f"{words} (It is in {page.settings.sync_dir}.)"))
        wandb.termsetup(wandb.setup().settings, heard)
        return page

    def _try_to_upload(self, page: Any, later: float) -> None:
        """A checkpoint that does not get there is no reason to lose the curves."""
        began = time.monotonic()
        try:
            self._upload(page, later)
        except Exception as error:
            if not self._has_told_of_uploads:
                words = " ".join(str(error).split())
                self._say(f"A checkpoint is not at Weights & Biases, the run goes on: {words}")
            self._has_told_of_uploads = True
        ended = time.monotonic()
        self._looks_at = ended + _LOOKS_EVERY * max(ended - began, 1)

    def _upload(self, page: Any, later: float) -> None:
        """The newest checkpoint, if it is later than the last one by more than such a share."""
        import wandb

        if self._run.config.no_artifact or page.settings.mode in _OFFLINE:
            return
        try:
            steps = shelf.steps(self._run.checkpoints)
        except OSError:  # of a bucket that is away; it is tried again
            return
        if not steps or steps[-1] <= self._uploaded * (1 + later):
            return
        newest = self._run.checkpoints / str(steps[-1])
        artifact = wandb.Artifact(
            f"{self._run.name}-checkpoint", "checkpoint", metadata={"step": steps[-1]}
        )
        with suppress(FileNotFoundError):  # newer ones have taken its place meanwhile
            if isinstance(newest, Bucket):
                artifact.add_reference(str(newest), checksum=False)  # it is at hand there
            else:
                artifact.add_dir(str(newest), skip_cache=True)
            page.log_artifact(artifact, aliases=["latest", f"step-{newest.name}"])
            self._uploaded = steps[-1]


def _log(page: Any, step: int, metrics: Metrics, at: float) -> None:
    if step >= page.starting_step:  # it has those before, and would warn
        page.log({**metrics, "_timestamp": at}, step=step, commit=True)


class _Heard:
    """Takes what wandb would print while a page is open. Warnings are said, each of them once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def info(self, message: str) -> None:
        pass

    def warning(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._say(" ".join(message.split()))

    error = warning


def _quiet_wandb() -> Any:
    """The package, set up so that our console alone speaks, and that neither the start nor the end
    of a run waits for ever.
    """
    import wandb

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # by which it counts its failures
    settings = wandb.Settings(
        silent=True,
        console="off",
        init_timeout=_INIT_SECONDS,
        finish_timeout=_FINISH_SECONDS,
        finish_timeout_raises=True,
    )
    wandb.termsetup(wandb.setup(settings).settings, None)  # no page is open yet
    return wandb
