"""Operations that REST clients start and query by a trigger id: which are in progress, and how the others ended. Pure.

Rules:
- the same key again is the same operation, for as long as it is in progress or its outcome is kept;
- an outcome is kept for a time after the end, and only the most recent outcomes are kept;
- only so many operations are in progress at the same time.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from millstream.core.errors import MillstreamError


class OperationKind(Enum):
    """Trigger ids are unique for a job and a kind."""

    SAVEPOINT = "savepoint"  # also of a job that stops with it
    CHECKPOINT = "checkpoint"
    DISPOSAL = "savepoint disposal"
    RESCALING = "rescaling"


class OperationKey(Struct, frozen=True):
    """One operation. `job_id` is empty when it is no job's."""

    kind: OperationKind
    job_id: str
    trigger_id: str


class Outcome(Struct, frozen=True):
    """How an operation ended: well when there is no failure, and then a snapshot has its id and its location.

    The message holds further remarks.
    """

    failure: str = ""
    location: str = ""
    checkpoint_id: int = 0
    message: str = ""


class TooManyOperationsError(MillstreamError):
    """No more operations can be started now."""


class Operations:
    """The table. `keep` is how long outcomes stay, in seconds; `capacity` bounds both parts of it."""

    def __init__(self, keep: float, capacity: int) -> None:
        self._keep = keep
        self._capacity = capacity
        self._under_way: set[OperationKey] = set()
        self._ended: dict[OperationKey, tuple[float, Outcome]] = {}  # in the order of their ends

    def knows(self, key: OperationKey, now: float) -> bool:
        """Whether the operation is in progress or its outcome is still kept."""
        self._expire(now)
        return key in self._under_way or key in self._ended

    def outcome(self, key: OperationKey) -> Outcome | None:
        """The outcome of a known operation; None while it is in progress."""
        return None if key in self._under_way else self._ended[key][1]

    def begin(self, key: OperationKey, now: float) -> None:
        """An operation that is not known starts."""
        assert not self.knows(key, now), f"{key} was started before"
        if len(self._under_way) >= self._capacity:
            raise TooManyOperationsError(f"{self._capacity} operations are in progress: try again when some have ended")
        self._under_way.add(key)

    def end(self, key: OperationKey, outcome: Outcome, now: float) -> None:
        """An operation that is in progress ended."""
        self._under_way.remove(key)
        self._ended[key] = (now, outcome)
        self._expire(now)

    def _expire(self, now: float) -> None:
        while self._ended:
            oldest = next(iter(self._ended))
            if now - self._ended[oldest][0] < self._keep and len(self._ended) <= self._capacity:
                return
            del self._ended[oldest]
