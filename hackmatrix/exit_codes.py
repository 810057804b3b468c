"""The exit codes of a training program, for whoever started it."""

from __future__ import annotations

DONE = 0
FAILED = 1  # it would fail again: do not start it again
RETRY = 42  # start it again: it goes on, or the failure may have passed
