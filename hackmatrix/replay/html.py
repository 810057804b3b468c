"""An episode as one page that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
from importlib import resources

from hackmatrix.envs import drawing
from hackmatrix.replay.record import Episode

_TEMPLATE = "page.html"


def page(episode: Episode) -> str:
    colours = {
        **drawing.COLOURS,
        "ink": drawing.INK,
        "floor": drawing.FLOOR,
        "lines": drawing.LINES,
    }
    as_css = {name: "#{:02x}{:02x}{:02x}".format(*colour) for name, colour in colours.items()}
    template = resources.files(__package__).joinpath(_TEMPLATE).read_text("utf-8")
    with_colours = template.replace("__COLOURS__", _inside_script(as_css))
    return with_colours.replace("__EPISODE__", _inside_script(episode.as_json()))


def _inside_script(data: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
