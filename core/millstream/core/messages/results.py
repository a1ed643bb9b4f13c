"""The messages by which a client collects the results of an `execute_and_collect` sink.

Results are numbered from 0 within one attempt of the sink (its version). A client requests those from `offset` on; the
sink drops all earlier results, and keeps the rest until the next request.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class CollectRequest(Struct, frozen=True):
    """From the client, through dispatcher, job manager and task manager, to the sink."""

    job_id: JobId
    operator_id: str
    version: str = ""
    """The version of the last response; empty at first."""
    offset: int = 0
    request_id: str = ""
    """Set by the dispatcher, to match the response."""


class CollectResponse(Struct, frozen=True):
    """The response of the sink."""

    request_id: str = ""
    version: str = ""
    offset: int = 0
    """The number of the first result in `batches`."""
    batches: tuple[bytes, ...] = ()
    """Each is a pickled list of results."""
    finished: bool = False
    """Whether there are no further results."""
    error: str = ""
    """The sink is unreachable now: the client retries, or inspects the job."""
    committed: int = 0
    """Results before this number are final, and not repeated after failures."""
    starts_over: bool = False
    """Whether the version was not restored, so that results of earlier ones are repeated."""
