"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that runs the tests in the background has them ignore SIGINT, and so every process that they start: the tests
# of Ctrl-C would wait for ever. With a handler of its own in this process, children start with the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)
