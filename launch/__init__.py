"""Programs, one for each job: flags and a few calls."""

import signal
import sys

# `python -m` imports this first. Until a program handles Ctrl-C, it ends without a traceback.
if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
