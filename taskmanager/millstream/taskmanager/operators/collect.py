"""The sink that keeps results for the client of `execute_and_collect`. The client's half is its `ResultBuffer`.

Results are numbered from 0. A checkpoint holds those that the client has not confirmed, and the number of the first, so
a restored attempt goes on with the same numbers under a new version. `committed` tells the client how far results are
final: those before a completed checkpoint's barrier. Without checkpoints nothing comes again, and all are.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

from millstream.core.batches import Barrier, Batch
from millstream.core.ids import new_id
from millstream.core.pickling import to_bytes
from millstream.core.types import PICKLED, TypeInformation
from millstream.datastream.functions import RuntimeContext
from millstream.datastream.state import ListState
from millstream.proto import dispatcher_pb2 as pb
from millstream.taskmanager.operators.base import NO_RECORD, Emit, Operator, OperatorError
from millstream.taskmanager.state.backend import OperatorStateBackend

_STATE = "results"


class CollectOperator(Operator):
    """Keeps results until the client has asked for those behind them.

    The task stops taking input while more than `CAPACITY` results wait, and ends only when the client has everything.
    """

    CAPACITY = 16_384
    ANSWER = 4_096

    def __init__(
        self,
        name: str,
        context: RuntimeContext,
        input_type: TypeInformation,
        emit: Emit,
        operator_state: OperatorStateBackend,
    ):
        super().__init__(name, context, input_type, emit)
        self.operator_state: OperatorStateBackend = operator_state
        self._checkpointed = context.is_checkpointing_enabled()
        self._version = new_id()
        self._first = 0
        self._results: deque[Any] = deque()
        self._committed = 0
        self._at_barriers: dict[int, int] = {}
        self._starts_over = True
        self._finished = False

    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        """Takes over what the client had not confirmed: the number of the first result, and the results."""
        restored = list(self._state().get())
        if restored:
            self._first, *results = restored
            self._results = deque(results)
            self._committed = self._end
            self._starts_over = False

    def process(self, batch: Batch) -> None:
        """Keeps the batch's records."""
        self._results.extend(self.rows_of(batch))

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Everything so far is final once the checkpoint is complete."""
        self._state().update([self._first, *self._results])
        self._at_barriers[barrier.checkpoint_id] = self._end

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Results before the barrier are final."""
        self._committed = max(self._committed, self._at_barriers.get(checkpoint_id, 0))
        self._at_barriers = {number: end for number, end in self._at_barriers.items() if number > checkpoint_id}

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
        final = self._committed if self._checkpointed else self._end
        return pb.CollectResponse(
            request_id=request.request_id,
            version=self._version,
            offset=self._first,
            batches=[self._pickled(chunk)] if chunk else [],
            finished=self._finished and not chunk and final == self._end,
            committed=final,
            starts_over=self._starts_over,
        )

    @property
    def _end(self) -> int:
        return self._first + len(self._results)

    def _state(self) -> ListState[Any]:
        return self.operator_state.store.get_list_state(_STATE, PICKLED)

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
