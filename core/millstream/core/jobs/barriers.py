"""Options of checkpoints that job managers and task managers share."""

from __future__ import annotations

from enum import StrEnum


class StopMode(StrEnum):
    """The action of tasks after their snapshot."""

    NONE = "NONE"  # continue
    SUSPEND = "SUSPEND"  # emit nothing more, end when the snapshot is complete
    DRAIN = "DRAIN"  # first advance event time to its end, then as SUSPEND


class Alignment(StrEnum):
    """How a task with several inputs treats barriers."""

    ALIGNED = "ALIGNED"
    UNALIGNED = "UNALIGNED"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
