"""Tells which failures are transient, so worth another try, and reports a lack of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from jax.errors import JaxRuntimeError

from hackmatrix.errors import UserError

# The status codes of JAX's errors. A program that runs out of memory would do so again.
_PASS = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED"}
_STAY = {
    "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "NOT_FOUND", "ALREADY_EXISTS",
    "OUT_OF_RANGE", "PERMISSION_DENIED", "UNAUTHENTICATED",
}  # fmt: skip
_CODE = re.compile(r"\b([A-Z]+(?:_[A-Z]+)*): ")
# Messages of libraries about a lost connection or machine, under other codes such as INTERNAL.
_LOST = re.compile(
    r"connection (was )?(reset|refused|closed)|socket closed|broken pipe|heartbeat|preempt"
    r"|network error|remote process (has )?exited|peer (is )?(lost|gone|unreachable)"
    r"|(lost|no) (connection|route) to|timed out",
    re.IGNORECASE,
)


def is_transient(error: BaseException) -> bool:
    """Whether starting the processes again may help, because another process or a machine was lost.
    A bug in a program or its compiler is not transient.
    """
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if not isinstance(error, JaxRuntimeError):
        return False
    text = str(error)
    code = next((each for each in _CODE.findall(text) if each in _PASS | _STAY), None)
    return code in _PASS or (code is None and bool(_LOST.search(text)))


@contextmanager
def out_of_memory_as_user_error(words: str) -> Iterator[None]:
    """Turns a lack of memory into a UserError with these words, which say what needs less."""
    try:
        yield
    except (JaxRuntimeError, MemoryError) as error:  # of a device, or of the host
        if isinstance(error, JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(words) from error
