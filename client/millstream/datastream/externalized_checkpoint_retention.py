"""`ExternalizedCheckpointRetention`, as in PyFlink."""

from __future__ import annotations

from enum import StrEnum


class ExternalizedCheckpointRetention(StrEnum):
    """What happens to the last checkpoints of a job that does not finish."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
