"""An episode as one self-contained HTML page, which needs no other files and no network."""

from __future__ import annotations

import json
import re
from importlib import resources

from hackmatrix.envs.drawing import looks
from hackmatrix.replay.compact import compact
from hackmatrix.replay.record import Episode

_HERE = "hackmatrix.replay"


def page(episode: Episode) -> str:
    return filled(_HERE, "page.html", EPISODE=inside_script(compact(episode)))


def filled(package: str, template: str, **parts: str) -> str:
    """Fills in a template of a package with these parts and with what all pages share."""
    shared = {"LOOK": _read(_HERE, "look.css"), "DOM": _read(_HERE, "dom.js")}
    parts |= {**shared, "COLOURS": inside_script(_colours())}
    return re.sub("__([A-Z]+)__", lambda name: parts[name[1]], _read(package, template))


def inside_script(data: object) -> str:
    """Returns JSON that cannot close the script element around it."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _colours() -> dict[str, str]:
    """Returns the colours in CSS notation."""
    return {name: "#{:02x}{:02x}{:02x}".format(*colour) for name, colour in looks.ALL.items()}


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")
