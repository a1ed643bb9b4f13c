"""`RuntimeExecutionMode`, as in PyFlink."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a job runs. Bounded jobs run as streams that end."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"
