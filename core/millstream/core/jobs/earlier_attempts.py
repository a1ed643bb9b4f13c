"""The history of earlier attempts of subtasks: their states with times, their hosts and how they ended. Pure.

It is sent with a job's details, which are sent often while the history rarely changes: so it is encoded once, and
decoded only on request. Limited for each subtask, and for a job with very many subtasks in total.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from millstream.core.jobs.details import SubtaskStatus, TaskMetrics
from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.states import ExecutionState

_MOST = 4096  # of a job: 0.5 MB


class EarlierAttempt(Struct, frozen=True, array_like=True, gc=False):
    """An earlier attempt in its final state."""

    vertex_id: VertexId
    subtask: int
    attempt: int
    state: ExecutionState
    task_manager: str
    host: str
    state_times: Mapping[str, int]
    counted: tuple[int, int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0, 0)
    """Records in and out, bytes in and out, milliseconds busy, backpressured and idle."""

    @staticmethod
    def of(vertex_id: VertexId, status: SubtaskStatus) -> EarlierAttempt:
        """Builds the entry for a subtask's current attempt, which is about to be replaced."""
        m = status.metrics
        counted = (m.records_in, m.records_out, m.bytes_in, m.bytes_out, m.busy_ms, m.backpressured_ms, m.idle_ms)
        return EarlierAttempt(
            vertex_id, status.index, status.attempt, status.state, status.task_manager, status.host,
            status.state_times, counted,
        )  # fmt: skip

    @property
    def status(self) -> SubtaskStatus:
        """Returns the status in the form of a current attempt."""
        return SubtaskStatus(
            self.subtask, self.state, self.attempt, self.task_manager, self.host,
            self.state_times.get(ExecutionState.DEPLOYING, 0), self.state_times.get(self.state, 0), self.state_times,
            TaskMetrics(*self.counted),
        )  # fmt: skip


_CONTENT = msgspec.msgpack.Decoder(list[EarlierAttempt])


def earlier_attempts(content: bytes) -> list[EarlierAttempt]:
    """Decodes `AttemptHistory.encoded`, the oldest first."""
    return _CONTENT.decode(content) if content else []


class AttemptHistory:
    """The last attempts of each subtask, without the current one."""

    def __init__(self, size: int = 16) -> None:
        self._size = size
        self._kept: dict[tuple[VertexId, int, int], EarlierAttempt] = {}
        self._of_subtask: dict[tuple[VertexId, int], deque[int]] = {}
        self._encoded: bytes | None = b""

    def add(self, attempt: EarlierAttempt) -> None:
        """Adds an attempt that has ended and was replaced."""
        if not self._size:
            return
        place = (attempt.vertex_id, attempt.subtask)
        numbers = self._of_subtask.setdefault(place, deque())
        if len(numbers) == self._size:
            self._kept.pop((*place, numbers.popleft()), None)
        numbers.append(attempt.attempt)
        self._kept[*place, attempt.attempt] = attempt
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]
        self._encoded = None

    @property
    def encoded(self) -> bytes:
        """Encodes all attempts; empty if there are none."""
        if self._encoded is None:
            self._encoded = msgspec.msgpack.encode(list(self._kept.values()))
        return self._encoded
