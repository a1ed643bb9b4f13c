"""The sink that keeps results for the client of `execute_and_collect`; the client's side is its `ResultBuffer`.

Results are numbered from 0. They are kept, sent and stored pickled, in chunks of at most a batch each. A checkpoint
contains those that the client has not confirmed, and the number of the first, so a restored attempt continues with the
same numbers under a new version. `committed` is up to which number results are final: those before the barrier of a
completed checkpoint. Without checkpoints nothing is replayed, and all results are final.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from millstream.core.jobs.ids import new_id
from millstream.core.jobs.plan import plan
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.overriding import override
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import Barrier, Batch
from millstream.core.records.types import PICKLED
from millstream.datastream.state import ListState
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, Operator, OperatorError
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.state.backend import OperatorStateBackend

_STATE = "chunks"


@builds(plan.CollectSpec)
class CollectOperator(Operator):
    """Keeps results until the client has requested those that follow.

    The task stops taking input while `CAPACITY` bytes or more wait, and ends only when the client has everything. This
    limit also keeps the state small enough for a checkpoint in the job manager's memory.
    """

    CAPACITY = 2 * 1024 * 1024
    LARGEST = 1024 * 1024 * 1024  # bytes of one result: a message can have twice that
    only_reads = True

    def __init__(self, setup: OperatorSetup, spec: plan.CollectSpec) -> None:
        super().__init__(setup)
        self.operator_state: OperatorStateBackend = setup.operator_state()
        self._checkpointed = setup.context.is_checkpointing_enabled()
        self._version = new_id()
        self._first = self._end = 0
        self._chunks: deque[tuple[int, bytes]] = deque()  # the number of results, and their bytes
        self._waiting = 0  # bytes
        self._committed = 0
        self._at_barriers: dict[int, int] = {}
        self._starts_over = True
        self._finished = False

    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        """Restores what the client had not confirmed: the number of the first result, and the chunks."""
        restored = list(self._state().get())
        if restored:
            self._first, *chunks = restored
            self._end = self._first
            for chunk in chunks:
                self._add(*chunk)
            self._committed = self._end
            self._starts_over = False

    @override
    def process(self, batch: Batch) -> None:
        if len(batch):
            self._keep(self.rows_of(batch))
            self.records_written += len(batch)

    def _keep(self, rows: list[Any]) -> None:
        pickled = self._pickled(rows)
        if len(pickled) <= self.CAPACITY:
            self._add(len(rows), pickled)
        elif len(rows) > 1:
            middle = len(rows) // 2
            self._keep(rows[:middle])
            self._keep(rows[middle:])
        elif len(pickled) <= self.LARGEST:
            self._add(1, pickled)
        else:
            message = f"a result of {len(pickled)} bytes cannot be collected: the limit is {self.LARGEST}"
            raise OperatorError(self.name, rows[0], ValueError(message))

    def _add(self, count: int, pickled: bytes) -> None:
        self._chunks.append((count, pickled))
        self._waiting += len(pickled)
        self._end += count

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Results up to here are final once the checkpoint completes."""
        self._state().update([self._first, *self._chunks])
        self._at_barriers[barrier.checkpoint_id] = self._end

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Marks the results before the barrier as final."""
        self._committed = max(self._committed, self._at_barriers.get(checkpoint_id, 0))
        self._at_barriers = {number: end for number, end in self._at_barriers.items() if number > checkpoint_id}

    def finish(self) -> None:
        """Marks the end of the results."""
        self._finished = True

    @property
    def has_room(self) -> bool:
        """Whether more results fit."""
        return self._waiting < self.CAPACITY

    @property
    def is_drained(self) -> bool:
        """Whether the client has received everything."""
        return not self._chunks

    def on_mail(self, mail: Any) -> CollectResponse | None:
        """Handles the client's request: drops the chunks that it has received, and returns those that follow."""
        return self._answer(mail) if isinstance(mail, CollectRequest) else None

    def _answer(self, request: CollectRequest) -> CollectResponse:
        if request.version == self._version:
            while self._chunks and self._first + self._chunks[0][0] <= request.offset:
                count, pickled = self._chunks.popleft()
                self._first += count
                self._waiting -= len(pickled)
        batches = self._next_batches()
        final = self._committed if self._checkpointed else self._end
        return CollectResponse(
            request.request_id,
            self._version,
            self._first,
            batches,
            finished=self._finished and not batches and final == self._end,
            committed=final,
            starts_over=self._starts_over,
        )

    def _next_batches(self) -> tuple[bytes, ...]:
        batches: list[bytes] = []
        size = 0
        for _, pickled in self._chunks:
            size += len(pickled)
            if batches and size > self.CAPACITY:
                break
            batches.append(pickled)
        return tuple(batches)

    def _state(self) -> ListState[Any]:
        return self.operator_state.store.get_list_state(_STATE, PICKLED)

    def _pickled(self, rows: list[Any]) -> bytes:
        try:
            return to_bytes(rows)
        except TaskInterrupted:
            raise
        except BaseException as error:  # whatever a user's __reduce__ raises
            raise OperatorError(self.name, _unpicklable(rows), error) from error


def _unpicklable(rows: list[Any]) -> Any:
    for record in rows:
        try:
            to_bytes(record)
        except TaskInterrupted:
            raise
        except BaseException:  # as above
            return record
    return NO_RECORD
