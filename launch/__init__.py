"""Programs, one for each job: flags and a few calls."""

import signal
import sys

if sys.argv[0] == "-m":  # which imports this first
    # Until a program handles Ctrl-C, it ends without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        import absl  # noqa: F401
    except ModuleNotFoundError:  # this may not be the Python of .venv
        sys.exit(
            "absl is missing: source .venv/bin/activate, or pip install -e . -c constraints.txt"
        )
