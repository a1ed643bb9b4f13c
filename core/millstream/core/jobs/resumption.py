"""How a job is resumed when its whole cluster is stopped and started again, as its job manager reports it."""

from __future__ import annotations

from enum import StrEnum


class Resumption(StrEnum):
    """How the job is resumed, also when only its job manager and its tasks are lost."""

    UNKNOWN = ""
    """The job has ended, or no job manager has reported it yet."""
    CHECKPOINT = "CHECKPOINT"
    """From its last completed checkpoint."""
    BEGINNING = "BEGINNING"
    """It has completed no checkpoint, and its restart strategy restarts it from the beginning."""
    SNAPSHOT = "SNAPSHOT"
    """It has completed no checkpoint, and its restart strategy restarts it from the snapshot that it was started
    from.
    """
    NOT_STARTED = "NOT_STARTED"
    """None of its tasks has run yet: it is started."""
    NONE = "NONE"
    """It has completed no checkpoint, and has no restart strategy: it fails. Running it again would repeat output."""
    LOST = "LOST"
    """It is lost: without high availability, the cluster does not store its jobs."""
