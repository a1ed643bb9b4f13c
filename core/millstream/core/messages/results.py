"""How a client gets the results of an `execute_and_collect` sink.

Results are numbered from 0 within one attempt of the sink (its version). A client asks for those from `offset` on; the
sink drops what lies before it, and keeps the rest until it is asked for the next.
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
    """Set by the dispatcher, to match the answer."""


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
    """The sink cannot be asked now: a reason to try again, or to look at the job."""
    committed: int = 0
    """Results before this number will not come again, whatever fails."""
    starts_over: bool = False
    """The version was not restored: what earlier ones answered comes again."""
