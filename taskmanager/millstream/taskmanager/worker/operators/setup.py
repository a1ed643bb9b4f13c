"""What an operator is built with: its name, its outputs, and the state that its specification declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from millstream.common.watermark_strategy import WatermarkAlignment
from millstream.core.clock import Clock, SystemClock
from millstream.core.records.handover import Handover
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.taskmanager.worker.operators.output import Output
from millstream.taskmanager.worker.operators.serial_thread import SerialCalls, SerialThread
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.backend import KeyedStateBackend, OperatorStateBackend
from millstream.taskmanager.worker.state.heap import HeapOperatorStateBackend

if TYPE_CHECKING:
    from millstream.taskmanager.worker.checkpointing.restoring import RestoredTask
    from millstream.taskmanager.worker.operators.sources.source import ReaderContext


class TaskServices(Struct, frozen=True):
    """What a task provides to all of its operators."""

    make_context: Callable[[str], TaskRuntimeContext]
    make_reader_context: Callable[[TaskRuntimeContext], ReaderContext]
    make_keyed_backend: Callable[[str, TypeInformation], KeyedStateBackend]
    make_operator_backend: Callable[[str], OperatorStateBackend] = HeapOperatorStateBackend
    post: Callable[[str, Any], None] = lambda operator_id, mail: None
    """Sends a mail to an operator of the task, from any thread."""
    max_rows: int = 2048
    max_column_rows: int = 65536
    options: Mapping[str, str] = field(default_factory=dict)
    """The options of the job."""
    clock: Clock = field(default_factory=SystemClock)
    restored: RestoredTask | None = None
    failed_savepoints: Collection[int] = ()
    """The savepoints that failed, whose transactions no other snapshot contains."""
    held_up: Callable[[], float] = lambda: 0.0
    """How long, in seconds, the task has been unable to emit."""
    report_watermark: Callable[[WatermarkAlignment, int], None] = lambda alignment, watermark: None
    """Reports the progress of a source whose event time is aligned; the limit arrives as a `WatermarkLimit` mail."""
    serial_calls: Callable[[str], SerialCalls] = SerialThread
    """Runs blocking calls of an operator away from the task's thread; the argument names the thread."""


class OperatorSetup(Struct):
    """What one operator is built with. If the task is restored, requested state has the contents of the snapshot."""

    services: TaskServices
    operator_id: str
    name: str
    context: TaskRuntimeContext
    input_types: tuple[TypeInformation, ...]
    output: Output
    side_outputs: dict[str, Output] = field(default_factory=dict)
    handover: Handover = field(default_factory=Handover)
    output_type: TypeInformation = PICKLED
    _operator_state: OperatorStateBackend | None = None

    def keyed_state(self, key_type: TypeInformation) -> KeyedStateBackend:
        """The operator's state by key; requested once. Its function accesses it through the runtime context."""
        backend = self.services.make_keyed_backend(self.name, key_type)
        if self.services.restored is not None:
            backend.restore(self.services.restored.keyed_state(self.operator_id))
        self.context.keyed_backend = backend
        return backend

    def operator_state(self) -> OperatorStateBackend:
        """The operator's state without keys."""
        if self._operator_state is None:
            self._operator_state = self.services.make_operator_backend(self.name)
            if self.services.restored is not None:
                self._operator_state.restore(self.services.restored.operator_state(self.operator_id))
        return self._operator_state

    def state_entries(self) -> dict[str, int]:
        """The number of entries in each requested state, by name."""
        backends = (self.context.keyed_backend, self._operator_state)
        return {name: count for held in backends if held is not None for name, count in held.entry_counts().items()}

    def post(self, mail: Any) -> None:
        """Called on any thread: the operator's `on_mail` is called on the task's thread, between two elements."""
        self.services.post(self.operator_id, mail)
