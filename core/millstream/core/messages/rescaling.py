"""Requests to rescale jobs, and their results."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import JobId, VertexId


class VertexBounds(Struct, frozen=True):
    """The minimum and maximum parallelism of a vertex."""

    vertex_id: VertexId
    lower: int
    upper: int


class RescaleRequest(Struct, frozen=True):
    """Either `parallelism`, for all vertices that follow the job's, or `bounds` of every vertex."""

    job_id: JobId
    trigger_id: str = ""
    """Assigned by the dispatcher; a repetition has the same id."""
    parallelism: int = 0
    bounds: tuple[VertexBounds, ...] = ()
    wait: bool = False
    """Whether the response is sent when the rescale has completed or failed; otherwise when it is accepted."""


class RescaleResult(Struct, frozen=True):
    """The result: completed or accepted, unless there is an error."""

    trigger_id: str
    message: str = ""
    """The parallelism of the job, or what it waits for."""
    error: str = ""
