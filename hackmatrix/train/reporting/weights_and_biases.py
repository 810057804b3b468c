"""Weights & Biases: a run's metrics, configuration and checkpoints as a page on the web.

The package wandb is an extra, and is imported only where it is asked for. With WANDB_MODE=offline
the page stays in the run directory until `wandb sync` sends it. It has no checkpoints then: wandb
would keep a copy of each outside the run, forever.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hackmatrix.compile_cache.sources import version
from hackmatrix.errors import UserError
from hackmatrix.train.checkpoints import shelf
from hackmatrix.train.reporting.sinks import Game, Metrics, finite, read_lines
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.provenance import provenance

_ID = "wandb_id"  # a file in the run directory
_OFFLINE = ("offline", "dryrun", "disabled")
_MOST_TURNS = 100  # of a film
_INIT_SECONDS = 30  # timeout for the first answer
_LOOKS_EVERY = 60.0  # seconds between checks for a checkpoint to upload, times those that one took
_MIN_GROWTH = 0.1  # of the step since the last upload, as a fraction: a long run uploads few
_FINISH_SECONDS = 120  # timeout for sending the rest at the end


def is_installed() -> bool:
    return version("wandb") is not None  # an import could find a mere folder of that name


def check() -> None:
    """Raises UserError, before a run starts, if wandb is missing or nobody is logged in."""
    if not is_installed():
        raise UserError(
            "wandb=True needs the package wandb: pip install -e '.[wandb]' -c constraints.txt"
        )
    wandb = _quiet_wandb()
    mode = wandb.setup().settings.mode
    if mode not in _OFFLINE and not wandb.login(prompt=False, verify=False):
        raise UserError(
            "wandb=True needs a login: run `wandb login`, or set WANDB_API_KEY, or set "
            "WANDB_MODE=offline to upload later"
        )


class WeightsAndBiases:
    """A sink that logs to a page at Weights & Biases. A resumed run continues under the id saved in
    its directory; with `rewind_to`, curves drop what came after that step. Whenever the page is
    opened, it gets the lines of metrics.jsonl that it lacks, except offline.
    """

    def __init__(
        self, run: Run, rewind_to: int | None = None, *, say: Callable[[str], None] = print
    ) -> None:
        self._run, self._rewind_to, self._say = run, rewind_to, say
        self._page: Any = None
        self._id: str | None = None  # of the page once opened, even if it could not be saved
        self._uploaded = -1  # the step of the last uploaded checkpoint
        self._has_told_of_uploads = False
        self._looks_at = 0.0

    def write(self, step: int, metrics: Metrics) -> None:
        self.write_late(step, metrics, time.time())

    def write_late(self, step: int, metrics: Metrics, at: float) -> None:
        page = self._opened(step - 1)
        _log(page, step, finite(metrics), at)
        if time.monotonic() >= self._looks_at:
            self._try_to_upload(page, _MIN_GROWTH)

    def show_game(self, step: int, game: Game) -> None:
        import wandb

        film = io.BytesIO(game.film(_MOST_TURNS))
        caption = f"step {step:,}, return {game.total:.2f}"
        # Without a step, so after the newest one: steps of a page only grow.
        self._opened(None).log({"game": wandb.Video(film, caption, format="gif")})

    def close(self) -> None:
        page, self._page = self._page, None
        if page is None:
            return
        self._try_to_upload(page, min_growth=0)
        try:
            page.finish()
        except TimeoutError as error:
            rest = f"{self._run.directory}/wandb/run-*-{page.id}"
            raise TimeoutError(
                f"the upload is incomplete; `wandb sync {rest}` uploads the rest"
            ) from error

    def _opened(self, last_step: int | None) -> Any:
        """Returns the page. When it is opened, it gets the lines up to `last_step` that it lacks,
        from sessions without a connection or killed before everything was sent.
        """
        if self._page is None:
            self._page = page = self._open()
            if page.settings.mode not in _OFFLINE:  # offline, nothing knows what the page has
                lacking = read_lines(self._run.metrics, page.starting_step, last_step)
                for step, metrics, at in lacking:
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
                config={**config.settings(), "provenance": provenance(config)},
            )
            self._id, self._rewind_to = page.id, None
            atomic_files.write(place, f"{page.id}\n")
        except Exception:
            with suppress(Exception):  # else the id stays in use, and a dead service is asked again
                wandb.teardown()
            raise
        sync = f"`wandb sync {page.settings.sync_dir}`"
        where = page.url or f"offline; {sync} uploads all but checkpoints"
        self._say(f"Weights & Biases: {where}")
        copy = f"(A copy is in {page.settings.sync_dir}.)"
        heard = _Heard(lambda words: self._say(f"{words} {copy}"))
        wandb.termsetup(wandb.setup().settings, heard)
        return page

    def _try_to_upload(self, page: Any, min_growth: float) -> None:
        """Uploads a checkpoint if one is due. If that fails, it says so once; the run goes on."""
        began = time.monotonic()
        try:
            self._upload(page, min_growth)
        except Exception as error:
            if not self._has_told_of_uploads:
                words = " ".join(str(error).split())
                self._say(f"A checkpoint could not be uploaded; the run goes on: {words}")
            self._has_told_of_uploads = True
        ended = time.monotonic()
        self._looks_at = ended + _LOOKS_EVERY * max(ended - began, 1)

    def _upload(self, page: Any, min_growth: float) -> None:
        """Uploads the newest checkpoint, if its step exceeds the last one's by this share."""
        import wandb

        if self._run.config.no_artifact or page.settings.mode in _OFFLINE:
            return
        try:
            steps = shelf.steps(self._run.checkpoints)
        except OSError:  # of a bucket that is out of reach; it is retried
            return
        if not steps or steps[-1] <= self._uploaded * (1 + min_growth):
            return
        newest = self._run.checkpoints / str(steps[-1])
        artifact = wandb.Artifact(
            f"{self._run.name}-checkpoint", "checkpoint", metadata={"step": steps[-1]}
        )
        with suppress(FileNotFoundError):  # it was deleted meanwhile, for newer ones
            if isinstance(newest, Bucket):
                artifact.add_reference(str(newest), checksum=False)  # not a copy
            else:
                artifact.add_dir(str(newest), skip_cache=True)
            page.log_artifact(artifact, aliases=["latest", f"step-{newest.name}"])
            self._uploaded = steps[-1]


def _log(page: Any, step: int, metrics: Metrics, at: float) -> None:
    if step >= page.starting_step:  # the page has earlier ones, and would warn
        page.log({**metrics, "_timestamp": at}, step=step, commit=True)


class _Heard:
    """Receives what wandb would print while a page is open; says each warning or error once."""

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
    """Returns the module wandb, set up so that it prints nothing itself, and neither the start nor
    the end of a run waits forever.
    """
    import wandb

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # wandb counts failures with it
    settings = wandb.Settings(
        silent=True,
        console="off",
        init_timeout=_INIT_SECONDS,
        finish_timeout=_FINISH_SECONDS,
        finish_timeout_raises=True,
    )
    wandb.termsetup(wandb.setup(settings).settings, None)  # no page is open yet
    return wandb
