"""Trains an agent on all available devices: `python -m launch.train`."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING

from absl import app, flags
from ml_collections import config_flags

from hackmatrix.errors import UserError
from hackmatrix.exit_codes import FAILED, RETRY
from hackmatrix.train.config import reading
from hackmatrix.train.config.command_line import define_config, parser
from hackmatrix.train.guards.supervision import of_environment
from hackmatrix.train.runs.protocol import Unavailable
from launch.startup import command_line, process_flags, starting

if TYPE_CHECKING:
    from hackmatrix.train.plan import Request

PROGRAM = "launch.train"

_CONFIG = define_config(PROGRAM)
_WORKDIR = flags.DEFINE_string(
    "workdir", "runs", "Where run directories are created: a path, or gs://BUCKET/..."
)
_HEARTBEAT = flags.DEFINE_integer(
    "heartbeat_seconds", 30, "A process silent for this long counts as lost.", 1, 2**31 - 1
)
_JOIN = flags.DEFINE_integer(
    "join_seconds", 300, "How long processes wait for each other at the start.", 1, 2**31 - 1
)
_PROFILE = flags.DEFINE_string(
    "profile", None, "START:COUNT: trace COUNT updates from update START on, for TensorBoard."
)
_RESUME = flags.DEFINE_string(
    "resume", None, "The run to continue: its name, or auto for the latest."
)

command_line.refuse_empty(_WORKDIR, _RESUME)
flags.register_validator(
    _PROFILE,
    lambda text: text is None or bool(re.fullmatch(r"[1-9]\d*:[1-9]\d*", text)),
    "must be START:COUNT, such as 10:3 for updates 10, 11 and 12",
)


def main(_: list[str]) -> None:
    supervision = of_environment()
    supervision.start()
    starting.keep_compiled_programs(_WORKDIR.value)
    # Imported only now: JAX reads its cache directory on import, which takes a while.
    with starting.loading(PROGRAM, "JAX"):
        from hackmatrix.parallel import startup
        from hackmatrix.report import games
        from hackmatrix.train.guards.replicas import Diverged
        from hackmatrix.train.seeds import run_seeds
        from hackmatrix.train.session import run_session

    has_failed = True
    try:
        process_flags.meet(PROGRAM, heartbeat_seconds=_HEARTBEAT.value, join_seconds=_JOIN.value)
        starting.need_devices()
        request = _request()
        run = run_seeds if (request.settings.get("num_seeds") or 1) > 1 else run_session
        code = run(request, games.recorded, supervision)
        has_failed = False
    except UserError as error:
        for line in str(error).splitlines():
            starting.say_aside(f"{PROGRAM}: {line}")
        code = RETRY if isinstance(error, Diverged) else FAILED
    except Unavailable as error:
        starting.say_aside(f"{PROGRAM}: {error}: start again with --resume=auto")
        code = startup.code_after(error, _HEARTBEAT.value)
    except Exception as error:
        starting.say_aside(traceback.format_exc().rstrip())
        code = startup.code_after(error, _HEARTBEAT.value)
    startup.exit_together(code, has_failed=has_failed)


def _request() -> Request:
    from configs import given_by  # only now: it is known that no other package hides it
    from hackmatrix.train.plan import Request
    from hackmatrix.train.reporting.tracing import parse_span
    from hackmatrix.train.runs.places import place

    settings = dict(_CONFIG.value)
    by_flags = dict(config_flags.get_override_values(flags.FLAGS["config"]))
    has_file = flags.FLAGS["config"].present
    by_file = given_by(_CONFIG.value, reading.default()) if has_file else {}
    if _RESUME.value:
        settings["resume"] = _RESUME.value
    trace = parse_span(_PROFILE.value) if _PROFILE.value else None
    from_file = frozenset(by_file.keys() - by_flags.keys())
    return Request(settings, {**by_file, **by_flags}, place(_WORKDIR.value), trace, from_file)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.with_help(PROGRAM, parser(PROGRAM)))
