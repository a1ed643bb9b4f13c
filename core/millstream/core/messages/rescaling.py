"""The wish that a job runs at another parallelism, and what came of it."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import JobId, VertexId


class VertexBounds(Struct, frozen=True):
    """The least and the most parallelism of a vertex."""

    vertex_id: VertexId
    lower: int
    upper: int


class RescaleRequest(Struct, frozen=True):
    """Either `parallelism`, for all vertices that follow the job's, or `bounds` of every vertex."""

    job_id: JobId
    trigger_id: str = ""
    """Made by the dispatcher; the same one again is the same request."""
    parallelism: int = 0
    bounds: tuple[VertexBounds, ...] = ()
    wait: bool = False
    """Whether the response comes when the job runs so, or has failed to; else it comes when the wish is accepted."""


class RescaleResult(Struct, frozen=True):
    """Done or accepted, unless there is an error."""

    trigger_id: str
    message: str = ""
    """How the job runs now, or what it waits for."""
    error: str = ""
