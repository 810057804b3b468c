"""Training from Python: `hackmatrix.train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix.api.run import Run
from hackmatrix.cache import keep_compiled_programs
from hackmatrix.errors import UserError
from hackmatrix.exit_codes import DONE
from hackmatrix.report import games
from hackmatrix.train.config import reading
from hackmatrix.train.guards.interrupts import Interrupts
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Request
from hackmatrix.train.program import check_precision
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.places import place
from hackmatrix.train.session import run_session


def train(
    config: Mapping[str, Any] | str | Path | None = None,
    *,
    workdir: str | Path = "runs",
    tell: Callable[[int, dict[str, float]], Any] = lambda step, metrics: None,
    **settings: Any,
) -> Run:
    """Trains an agent on all devices there are, and prints its progress. An interrupt saves and
    stops; `is_finished` of the run is then False.

    `config` is a mapping of settings, as get_config() of a configuration file returns it, or the
    path of such a file, configs/NAME.py for one of the trainer's; settings that it lacks are as in
    configs/default.py. Keyword settings override it. Where a setting takes MODULE:NAME, the class
    or function itself may be given, or a functools.partial of it with keywords; `resume` also takes
    a Run. Raises UserError, which lists all that is wrong.

    `tell` is called for each line of progress, with the step and the metrics by tag (NaN where
    there is no data), in the first process. If it returns True, the run saves and stops, as after
    an interrupt; if it raises an error, that is raised as soon as the run has saved and stopped.
    """
    check_precision()
    keep_compiled_programs()
    runs: list[str] = []
    request = _request(config, settings, workdir)
    listener = _Listener(tell, interrupts := Interrupts())
    supervision = Supervision(interrupts, tell=runs.append)
    code = run_session(request, games.recorded, supervision, listeners=[listener])
    if listener.error:
        raise listener.error
    found = directory.find(workdir, runs[-1])
    assert found
    return Run(found, code == DONE)


class _Listener:
    """A sink that passes metrics on to a function, which may stop the run."""

    def __init__(
        self, tell: Callable[[int, dict[str, float]], Any], interrupts: Interrupts
    ) -> None:
        self._tell, self._interrupts = tell, interrupts
        self.error: Exception | SystemExit | None = None

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if self.error:
            return
        try:
            told = self._tell(step, dict(metrics))
        except (Exception, SystemExit) as error:
            self.error, told = error, True
        # Only True: functions that plot or write return something of their own.
        if isinstance(told, bool | np.bool_) and told:
            self._interrupts.ask_to_stop()

    def close(self) -> None:
        pass


def _request(
    config: Mapping[str, Any] | str | Path | None, settings: Mapping[str, Any], workdir: str | Path
) -> Request:
    usual = dict(reading.default())
    from configs import given_by  # only now: it is known that no other package hides it

    by_file = given_by(_settings(config), usual)
    given = {name: _named(value) for name, value in {**by_file, **settings}.items()}
    values = {**usual, **given}
    if not isinstance(values["resume"], str | None):
        raise UserError(f"resume={values['resume']!r} must be a run, or its name")
    if values["num_seeds"] != 1:
        raise UserError(
            f"num_seeds={values['num_seeds']} works only with launch.train; here call "
            "hackmatrix.train(seed=...) once per seed, as long as each run `is_finished`"
        )
    from_file = frozenset(by_file.keys() - settings.keys())
    return Request(values, given, place(workdir), from_file=from_file)


def _settings(config: Any) -> Mapping[str, Any]:
    if config is None:
        return {}
    if isinstance(config, str | Path):
        return reading.read(config)
    if hasattr(config, "items") and all(isinstance(name, str) for name, _ in config.items()):
        return config
    raise UserError(
        f"{config!r} is not a configuration: give a mapping of settings by name, such as a file's "
        "get_config() returns, or the path of such a file"
    )


def _named(value: Any) -> Any:
    """Returns the value in the form that is saved with the run."""
    return value.directory if isinstance(value, Run) else reading.plain(value)
