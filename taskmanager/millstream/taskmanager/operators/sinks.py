"""Sinks: a connector's writer, and the one that keeps results for the client."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

from millstream.core.batches import Batch
from millstream.core.ids import new_id
from millstream.core.pickling import to_bytes
from millstream.core.types import TypeInformation
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import RuntimeContext
from millstream.proto import dispatcher_pb2 as pb
from millstream.taskmanager.operators.base import NO_RECORD, Emit, Operator, OperatorError, tell


class SinkOperator(Operator):
    """Writes through a sink's writer."""

    def __init__(self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, sink: Sink):
        super().__init__(name, context, input_type, emit)
        self._sink = sink
        self._writer: SinkWriter | None = None

    def open(self) -> None:
        """Creates the writer."""
        try:
            self._writer = self._sink.create_writer(self.context)
        except Exception as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    def process(self, batch: Batch) -> None:
        """Writes a batch."""
        assert self._writer is not None, "the writer is created in open"
        try:
            self._writer.write(batch)
        except Exception as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    def prepare_snapshot(self, checkpoint_id: int, timestamp: int) -> None:
        """What was written before the barrier has to be out: a restore does not bring it again."""
        self._flush(False)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tells a writer that wants to know."""
        tell(self.name, self._writer, "notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tells a writer that wants to know."""
        tell(self.name, self._writer, "notify_checkpoint_aborted", checkpoint_id)

    def finish(self) -> None:
        """Everything has to be out now."""
        self._flush(True)

    def _flush(self, end_of_input: bool) -> None:
        assert self._writer is not None, "the writer is created in open"
        try:
            self._writer.flush(end_of_input)
        except Exception as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    def close(self) -> None:
        """Closes the writer."""
        if self._writer is not None:
            try:
                self._writer.close()
            except Exception as error:
                raise OperatorError(self.name, NO_RECORD, error) from error


class CollectOperator(Operator):
    """Keeps results, numbered from 0, until the client has asked for those behind them.

    The task stops taking input while more than `CAPACITY` results wait, and ends only when the client has everything.
    """

    CAPACITY = 16_384
    ANSWER = 4_096

    def __init__(self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit):
        super().__init__(name, context, input_type, emit)
        self._version = new_id()
        self._first = 0
        self._results: deque[Any] = deque()
        self._finished = False

    def process(self, batch: Batch) -> None:
        """Keeps the batch's records."""
        self._results.extend(self.rows_of(batch))

    def finish(self) -> None:
        """Nothing more will come."""
        self._finished = True

    @property
    def has_room(self) -> bool:
        """Whether more results may come."""
        return len(self._results) < self.CAPACITY

    @property
    def is_drained(self) -> bool:
        """Whether the client has everything."""
        return not self._results

    def answer(self, request: pb.CollectRequest) -> pb.CollectResponse:
        """Drops what the client has, and answers what follows."""
        if request.version == self._version:
            while self._results and self._first < request.offset:
                self._results.popleft()
                self._first += 1
        chunk = list(islice(self._results, self.ANSWER))
        return pb.CollectResponse(
            request_id=request.request_id,
            version=self._version,
            offset=self._first,
            batches=[self._pickled(chunk)] if chunk else [],
            finished=self._finished and not chunk,
        )

    def _pickled(self, chunk: list[Any]) -> bytes:
        try:
            return to_bytes(chunk)
        except Exception as error:  # whatever a user's __reduce__ raises
            raise OperatorError(self.name, _unpicklable(chunk), error) from error


def _unpicklable(chunk: list[Any]) -> Any:
    for record in chunk:
        try:
            to_bytes(record)
        except Exception:  # as above
            return record
    return NO_RECORD
