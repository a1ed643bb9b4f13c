"""The results of a job, pulled to the client while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Any

from millstream.datastream.execution.executor import JobClient


class CloseableIterator(Iterator[Any]):
    """What `execute_and_collect` answers. Closing it before its end cancels the job.

    With checkpoints on, each result comes once, whatever fails, when a completed checkpoint covers it. Without them,
    results come at once, and a job that starts over after some have come is an error.

    The end of the iteration is the end of the job: an iteration that stops by itself has seen every result, one whose
    job fails raises. Once begun, the client's own iterator sees to the job's end on every way out of it.
    """

    def __init__(self, client: JobClient, operator_id: str) -> None:
        self._client = client
        self._results = client.collect(operator_id)
        self._begun = False
        self._closed = False

    def get_job_client(self) -> JobClient:
        """The job that is being collected from."""
        return self._client

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        if self._closed:
            raise StopIteration
        self._begun = True
        try:
            return next(self._results)
        except BaseException:  # the end, a failed job, or Ctrl-C
            self._release()
            raise

    def next(self) -> Any:
        """The next result, as `next()` of the iterator answers it."""
        return next(self)

    def close(self) -> None:
        """Cancels the job unless it has ended, and releases the connection. May be called twice."""
        if self._closed:
            return
        try:
            if self._begun and isinstance(self._results, Generator):
                self._results.close()
            else:
                self._client.cancel().result()
        finally:
            self._release()

    def _release(self) -> None:
        self._closed = True
        self._client.close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            with contextlib.suppress(Exception):
                self.close()
