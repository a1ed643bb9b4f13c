"""`JobID`, under the module name that PyFlink gives it: 32 hexadecimal digits as text."""

from __future__ import annotations

from millstream.core.jobs.ids import JobId

JobID = JobId

__all__ = ["JobID"]
