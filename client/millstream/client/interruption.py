"""Ctrl-C in a program that waits for its job: the first cancels the job, the second ends the program at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as shells have it."""


@contextlib.contextmanager
def cancelling(job_id: str) -> Iterator[None]:
    """Around the cancellation of the job. Ends the process with status 130 when Ctrl-C comes again until then."""
    print(f"\nCancelling job {job_id}. Press Ctrl-C again to leave without waiting for its end.", file=sys.stderr)
    sys.stderr.flush()

    def leave(number: int, frame: FrameType | None) -> None:
        os.write(2, f"Left while job {job_id} was being cancelled.\n".encode())
        os._exit(INTERRUPTED)  # threads and connections would be waited for; slot workers of this process end with it

    if threading.current_thread() is not threading.main_thread():  # which alone gets Ctrl-C
        yield
        return
    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
