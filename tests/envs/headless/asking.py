"""Commands to a session within this process."""

from __future__ import annotations

import json
from typing import Any

from hackmatrix.envs.headless import Session
from hackmatrix.standalone.driving import GameProgram


def ask(session: Session, action: str, **others: Any) -> Any:
    return json.loads(session.answer(json.dumps({"action": action, **others}).encode()))


def set_state(session: Session, **state: Any) -> Any:
    return ask(session, "setState", state={"player": {"row": 0, "col": 0}, **state})


class LocalProgram(GameProgram):
    """A game program that runs within this process."""

    def __init__(self, seed: int) -> None:
        self._session = Session(seed)

    def ask(self, action: str, **rest: Any) -> Any:
        return ask(self._session, action, **rest)
