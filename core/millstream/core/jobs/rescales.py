"""The history of a job's rescales: their causes, steps and results. Pure.

As in Flink, the first start of a job is an entry, too. The history is sent with a job's details, which are sent often:
so it is encoded once for each change, and decoded only when it is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId, stable_id

MOST_RESCALES = 32
"""The number of rescales of a job that are kept."""


class RescaleCause(StrEnum):
    """The cause of a rescale, with Flink's names."""

    INITIAL_SCHEDULE = "INITIAL_SCHEDULE"
    UPDATE_REQUIREMENT = "UPDATE_REQUIREMENT"
    NEW_RESOURCE_AVAILABLE = "NEW_RESOURCE_AVAILABLE"
    RECOVERABLE_FAILOVER = "RECOVERABLE_FAILOVER"


class RescaleEnd(StrEnum):
    """Why a rescale ended, with Flink's names."""

    SUCCEEDED = "SUCCEEDED"
    EXCEPTION_OCCURRED = "EXCEPTION_OCCURRED"
    RESOURCE_REQUIREMENTS_UPDATED = "RESOURCE_REQUIREMENTS_UPDATED"
    JOB_FINISHED = "JOB_FINISHED"
    JOB_FAILED = "JOB_FAILED"
    JOB_CANCELED = "JOB_CANCELED"

    @property
    def state(self) -> str:
        """COMPLETED, FAILED or IGNORED."""
        match self:
            case RescaleEnd.SUCCEEDED:
                return "COMPLETED"
            case RescaleEnd.EXCEPTION_OCCURRED:
                return "FAILED"
            case _:
                return "IGNORED"


class RescaledVertex(Struct, frozen=True, array_like=True):
    """The parallelism of a vertex; `after` is 0 while the rescale is in progress."""

    id: VertexId
    name: str
    slot_sharing_group: str
    before: int
    desired: int
    lowest: int
    highest: int
    after: int = 0


class RescaleStep(Struct, frozen=True, array_like=True):
    """A state of the scheduler; `left_ms` is 0 for the current one."""

    state: str
    entered_ms: int
    left_ms: int = 0
    error: str = ""


class RescaleRecord(Struct, frozen=True, array_like=True):
    """A rescale. `requirements` is the same for rescales to the same bounds; `end` is None while it is in progress."""

    id: str
    requirements: str
    number: int
    cause: RescaleCause
    vertices: tuple[RescaledVertex, ...]
    started_ms: int
    ended_ms: int = 0
    end: RescaleEnd | None = None
    steps: tuple[RescaleStep, ...] = ()


_CONTENT = msgspec.msgpack.Decoder(list[RescaleRecord])


def rescale_records(content: bytes) -> list[RescaleRecord]:
    """Decodes `RescaleHistory.encoded`, the oldest first."""
    return _CONTENT.decode(content) if content else []


class RescaleHistory:
    """The last rescales of a job. At most one is in progress, which is then the last."""

    def __init__(self) -> None:
        self._records: deque[RescaleRecord] = deque(maxlen=MOST_RESCALES)
        self._numbers = 0
        self._encoded: bytes | None = b""

    @property
    def under_way(self) -> RescaleRecord | None:
        """The rescale in progress, or None."""
        return self._records[-1] if self._records and self._records[-1].end is None else None

    def begin(
        self,
        cause: RescaleCause,
        before: JobGraph | None,
        target: JobGraph,
        bounds: Mapping[VertexId, tuple[int, int]],
        now_ms: int,
    ) -> None:
        """Records the beginning of a rescale, which replaces one in progress. Without `before`, there were no tasks."""
        self.end(RescaleEnd.RESOURCE_REQUIREMENTS_UPDATED, before or target, now_ms)
        self._numbers += 1
        had = {vertex.id: vertex.parallelism for vertex in before.vertices} if before is not None else {}
        vertices = tuple(
            RescaledVertex(
                vertex.id, vertex.name, vertex.slot_sharing_group, had.get(vertex.id, 0), vertex.parallelism,
                *bounds.get(vertex.id, (vertex.parallelism, vertex.parallelism)),
            )
            for vertex in target.vertices
        )  # fmt: skip
        written = ";".join(f"{vertex.id}={vertex.lowest}-{vertex.highest}" for vertex in vertices)
        job = target.job_id
        self._records.append(
            RescaleRecord(
                stable_id("rescale", job, str(now_ms), str(self._numbers)), stable_id("requirements", job, written),
                self._numbers, cause, vertices, now_ms,
            )
        )  # fmt: skip
        self._encoded = None

    def step(self, state: str, now_ms: int, error: str = "") -> None:
        """Records the scheduler's state; `error` is the reason why it left the previous one."""
        record = self.under_way
        if record is None or (record.steps and record.steps[-1].state == state):
            return
        steps = [*_left(record.steps, now_ms, error), RescaleStep(state, now_ms)]
        self._replace(msgspec.structs.replace(record, steps=tuple(steps)))

    def end(self, end: RescaleEnd, runs: JobGraph, now_ms: int, error: str = "") -> None:
        """Records the end of the rescale in progress, if there is one; `runs` is the resulting graph."""
        record = self.under_way
        if record is None:
            return
        has = {vertex.id: vertex.parallelism for vertex in runs.vertices}
        vertices = tuple(msgspec.structs.replace(one, after=has.get(one.id, 0)) for one in record.vertices)
        steps = tuple(_left(record.steps, now_ms, error))
        self._replace(msgspec.structs.replace(record, vertices=vertices, steps=steps, ended_ms=now_ms, end=end))

    def _replace(self, record: RescaleRecord) -> None:
        self._records[-1] = record
        self._encoded = None

    @property
    def encoded(self) -> bytes:
        """Encodes all rescales; empty if there are none."""
        if self._encoded is None:
            self._encoded = msgspec.msgpack.encode(list(self._records))
        return self._encoded


def _left(steps: Sequence[RescaleStep], now_ms: int, error: str) -> list[RescaleStep]:
    if not steps:
        return []
    return [*steps[:-1], msgspec.structs.replace(steps[-1], left_ms=now_ms, error=error)]
