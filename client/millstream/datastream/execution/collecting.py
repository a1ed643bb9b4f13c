"""The results of a job, pulled to the client while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Generic

from millstream.core.records.type_variables import T_co
from millstream.datastream.execution.executor import JobClient


class CloseableIterator(Iterator[T_co], Generic[T_co]):
    """The results of `execute_and_collect`. Closing it before its end cancels the job.

    With checkpoints on, each result comes once, whatever fails, when a completed checkpoint covers it. Without them,
    results come at once, and a job that restarts after some of them were read is an error.

    The end of the iteration is the end of the job: an iteration that stops by itself has returned every result, and one
    whose job fails raises `JobExecutionError`. Use it in a `with` statement.
    """

    def __init__(self, client: JobClient, operator_id: str) -> None:
        self._client = client
        self._results = client.collect(operator_id)
        self._begun = False
        self._closed = False

    def get_job_client(self) -> JobClient:
        """Returns a client for the job."""
        return self._client

    def __iter__(self) -> CloseableIterator[T_co]:
        return self

    def __next__(self) -> T_co:
        if self._closed:
            raise StopIteration
        self._begun = True
        try:
            result: T_co = next(self._results)
            return result
        except BaseException:  # the end, a failed job, or Ctrl-C
            self._release()
            raise

    def next(self) -> T_co:
        """Returns the next result, as `next(iterator)` does; raises `StopIteration` at the end."""
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

    def __enter__(self) -> CloseableIterator[T_co]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            with contextlib.suppress(Exception):
                self.close()
