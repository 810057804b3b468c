"""What the exit code of a program that trains tells whoever started it."""

from __future__ import annotations

DONE = 0
FAILED = 1  # it would fail again: do not start it again
RETRY = 42  # start it again: it goes on, or what stopped it may be over
