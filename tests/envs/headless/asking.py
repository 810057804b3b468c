"""Commands to a session within this process."""

from __future__ import annotations

import json
from typing import Any

from hackmatrix.envs.headless import Session


def ask(session: Session, action: str, **others: Any) -> Any:
    return json.loads(session.answer(json.dumps({"action": action, **others}).encode()))


def set_state(session: Session, **state: Any) -> Any:
    return ask(session, "setState", state={"player": {"row": 0, "col": 0}, **state})
