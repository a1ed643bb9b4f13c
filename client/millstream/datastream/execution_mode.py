"""`RuntimeExecutionMode`, as in PyFlink."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a job runs: as a stream, which may end, or as a batch of bounded inputs, whose results come at their end.

    AUTOMATIC: as a batch if all sources are bounded.
    """

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"
