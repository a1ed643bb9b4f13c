"""What becomes of a job when its whole cluster stops and starts again, as its job manager knows it."""

from __future__ import annotations

from enum import StrEnum


class Resumption(StrEnum):
    """How the job goes on. The same holds when only its job manager and its tasks are lost."""

    UNKNOWN = ""
    """The job has ended, or no job manager has reported it yet."""
    CHECKPOINT = "CHECKPOINT"
    """From its last completed checkpoint."""
    BEGINNING = "BEGINNING"
    """It has completed no checkpoint, and its restart strategy runs it again: from the beginning, or from the snapshot
    that it was started from.
    """
    NOT_STARTED = "NOT_STARTED"
    """None of its tasks has run yet: it starts."""
    NONE = "NONE"
    """It has completed no checkpoint, and has no restart strategy: it fails. Running it again would repeat output."""
    LOST = "LOST"
    """Not at all: without high availability, the cluster forgets its jobs."""
