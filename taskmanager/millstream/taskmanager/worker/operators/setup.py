"""What an operator is built with: its name, its outputs, and the places for what its specification declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from millstream.common.watermark_strategy import WatermarkAlignment
from millstream.core.clock import Clock, SystemClock
from millstream.core.records.handover import Handover
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.taskmanager.worker.operators.output import Output
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.backend import KeyedStateBackend, OperatorStateBackend
from millstream.taskmanager.worker.state.heap import HeapOperatorStateBackend

if TYPE_CHECKING:
    from millstream.taskmanager.worker.checkpointing.restoring import RestoredTask
    from millstream.taskmanager.worker.operators.sources.source import ReaderContext


class TaskServices(Struct, frozen=True):
    """What a task offers to all of its operators."""

    make_context: Callable[[str], TaskRuntimeContext]
    make_reader_context: Callable[[TaskRuntimeContext], ReaderContext]
    make_keyed_backend: Callable[[str, TypeInformation], KeyedStateBackend]
    make_operator_backend: Callable[[str], OperatorStateBackend] = HeapOperatorStateBackend
    post: Callable[[str, Any], None] = lambda operator_id, mail: None
    """Sends a mail to an operator of the task, from any thread."""
    max_rows: int = 2048
    max_column_rows: int = 65536
    options: Mapping[str, str] = field(default_factory=dict)
    """The job's."""
    clock: Clock = field(default_factory=SystemClock)
    restored: RestoredTask | None = None
    failed_savepoints: Collection[int] = ()
    """Those that came to nothing, and whose transactions no other snapshot holds."""
    held_up: Callable[[], float] = lambda: 0.0
    """For how long so far, in seconds, the task could not have emitted anything."""
    report_watermark: Callable[[WatermarkAlignment, int], None] = lambda alignment, watermark: None
    """Reports the progress of a source whose event time is aligned; `WatermarkLimit` comes back as mail."""


class OperatorSetup(Struct):
    """Of one operator. State that is requested comes as the snapshot holds it, if the task is restored from one."""

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
        """The operator's state by key; requested once. Its function finds it through the runtime context."""
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
        """How many entries the requested states have, by name."""
        backends = (self.context.keyed_backend, self._operator_state)
        return {name: count for held in backends if held is not None for name, count in held.entry_counts().items()}

    def post(self, mail: Any) -> None:
        """From any thread: has the operator's `on_mail` called on the task's, between two elements."""
        self.services.post(self.operator_id, mail)
