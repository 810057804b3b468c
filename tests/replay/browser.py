"""A headless Chromium, controlled over a pair of pipes by the DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from typing import Any, BinaryIO

PATIENCE = 100  # seconds until a browser that hangs is ended
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--remote-debugging-pipe",
)  # fmt: skip
_TEXT_SIZES = """document => [...document.querySelectorAll('body *')]
  .filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
  .filter(each => each.getClientRects().length)
  .map(each => parseFloat(getComputedStyle(each).fontSize)
               * (each.getScreenCTM ? each.getScreenCTM().a : 1))"""


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    """A browser with one page: `errors` of its console, and the URLs that it `requested`."""

    def __init__(self, program: str) -> None:
        self.errors: list[str] = []
        self.requested: list[str] = []
        self._events: list[str] = []
        self._number = 0
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands_in, commands_out = os.pipe()
        answers_in, answers_out = os.pipe()
        page = f"--user-data-dir={self._profile.name}", "about:blank"
        # The browser reads from descriptor 3 and writes to 4.
        connect = f'exec "$0" "$@" 3<&{commands_in} 4>&{answers_out}'
        self._program = subprocess.Popen(
            ["bash", "-c", connect, program, *FLAGS, *page],
            pass_fds=(commands_in, answers_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_in)
        os.close(answers_out)
        self._commands: BinaryIO = os.fdopen(commands_out, "wb", buffering=0)
        self._answers: BinaryIO = os.fdopen(answers_in, "rb")
        self._watchdog = threading.Timer(PATIENCE, self._program.kill)
        self._watchdog.start()
        self._session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, address: str) -> None:
        self._events.clear()
        self.ask("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            self._take(self._message())

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression on the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int = 900) -> None:
        """Emulates a screen of this size in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.ask("Emulation.setDeviceMetricsOverride", mobile=width < 500, **size)

    def text_sizes(self, document: str = "document") -> list[float]:
        """Returns the font sizes of all text that is shown, also in SVG, in screen pixels."""
        sizes: list[float] = self.evaluate(f"({_TEXT_SIZES})({document})")
        return sizes

    def press(self, key: str, modifiers: int = 0) -> None:
        """Presses a key, with modifiers that add up: Alt (1), Ctrl (2), Meta (4)."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers)

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        self._commands.write(json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            self._take(message)
        assert "error" not in message, message
        return message["result"]

    def _message(self) -> Any:
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        return json.loads(text)

    def _take(self, message: Any) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self._program.kill()
        self._program.wait()
        self._commands.close()
        self._answers.close()
        self._profile.cleanup()
