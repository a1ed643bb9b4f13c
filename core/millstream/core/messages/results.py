"""How a client gets the results of an `execute_and_collect` sink.

Results are numbered from 0 within one attempt of the sink (its version). A client requests those from `offset` on; the
sink drops what lies before it, and keeps the rest until the next request.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class CollectRequest(Struct, frozen=True):
    """From the client, through dispatcher, job manager and task manager, to the sink."""

    job_id: JobId
    operator_id: str
    version: str = ""
    """Empty at first."""
    offset: int = 0
    request_id: str = ""
    """Set by the dispatcher, to match the response."""


class CollectResponse(Struct, frozen=True):
    """The way back."""

    request_id: str = ""
    version: str = ""
    offset: int = 0
    """Of the first result in `batches`."""
    batches: tuple[bytes, ...] = ()
    """A pickled list of results each."""
    finished: bool = False
    """No more will come."""
    error: str = ""
    """The sink cannot be reached now: a reason to try again, or to inspect the job."""
    committed: int = 0
    """Results before this number will not come again, whatever fails."""
    starts_over: bool = False
    """The version was not restored: what earlier ones returned comes again."""
