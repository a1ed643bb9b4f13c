"""The request for the reason why a job emits no results, and its response."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class StallQuery(Struct, frozen=True):
    """Requests what holds a job back."""

    job_id: JobId
    request_id: str = ""
    """Set by the dispatcher, to match the response."""


class StallAnswer(Struct, frozen=True):
    """JSON in the shape of the REST API, or why there is none: no such job."""

    request_id: str
    json: bytes = b""
    error: str = ""
