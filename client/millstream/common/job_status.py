"""`JobStatus`, under the module name that PyFlink gives it."""

from __future__ import annotations

from millstream.core.jobs.states import JobStatus

__all__ = ["JobStatus"]
