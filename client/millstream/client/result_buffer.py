"""The client's half of collecting results: what it has received, and how much of that is final. Pure.

The sink (`millstream.taskmanager.worker.operators.sinks.collect`) numbers results. The client hands out only those
below `committed`, because a failure repeats the others. An attempt of the sink is a version: a new one starts at the
number that its checkpoint holds, and what was received beyond that is dropped, for it comes again.
"""

from __future__ import annotations

import pickle
from typing import Any

from millstream.core.errors import JobExecutionError
from millstream.core.jobs.ids import JobId
from millstream.core.messages.results import CollectRequest, CollectResponse


class ResultBuffer:
    """Results `_next`, `_next + 1`, ... are held; those before them were handed out."""

    def __init__(self) -> None:
        self._version = ""
        self._start = self._next = 0
        self._held: list[Any] = []
        self._committed = 0

    def request(self, job_id: JobId, operator_id: str) -> CollectRequest:
        """The request for what follows, which confirms what came."""
        return CollectRequest(job_id, operator_id, self._version, self._next + len(self._held))

    def is_news(self, response: CollectResponse) -> bool:
        """Whether a response brings anything."""
        return bool(response.batches) or response.finished or response.committed > self._committed

    def take(self, response: CollectResponse) -> list[Any]:
        """Keeps what is new, and returns what can be handed out now."""
        if response.version != self._version:
            self._change_version(response)
        results = [result for batch in response.batches for result in pickle.loads(batch)]
        known = self._next + len(self._held) - response.offset
        assert known >= 0, "the sink drops only results that were confirmed"
        self._held += results[known:]
        self._committed = response.committed
        return self.rest() if response.finished else self._hand_out(response.committed - self._next)

    def rest(self) -> list[Any]:
        """All that is held: the job has finished."""
        return self._hand_out(len(self._held))

    def _hand_out(self, count: int) -> list[Any]:
        final = self._held[: max(0, count)]
        del self._held[: len(final)]
        self._next += len(final)
        return final

    def _change_version(self, response: CollectResponse) -> None:
        handed_out = self._next - self._start
        if response.starts_over and handed_out:
            raise JobExecutionError(
                f"the job started over after {handed_out} of its results were handed out, and they would come again: "
                "set execution.checkpointing.interval to collect from a job that restarts"
            )
        if not self._version or response.starts_over:
            self._start = self._next = response.offset
            self._held = []
        else:
            del self._held[max(0, response.offset - self._next) :]
        self._version = response.version
