"""State outside of a job: what a function puts into the state and timers of keys, or of an operator, as rows.

The state is the heap backend of the runtime, so a function sees what it would see in a task, and what it leaves is what
a task would have written. On one thread, and no records flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from millstream.core.clock import Clock, SystemClock
from millstream.core.jobs.ids import NO_ATTEMPT, JobId, VertexId
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.metadata.model import StateKind, StateSnapshot
from millstream.core.snapshot.tables.table import broadcast_table, element_table
from millstream.datastream.functions import Function
from millstream.datastream.functions.contexts import KeyedContext
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.timerservice import TimerService
from millstream.taskmanager.worker.operators.time.timer_service import OperatorTimers
from millstream.taskmanager.worker.operators.time.timing import NAME as USER_TIMERS
from millstream.taskmanager.worker.operators.windows.contents import NAME as WINDOW_CONTENTS
from millstream.taskmanager.worker.operators.windows.operator import TIMERS as WINDOW_TIMERS
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.capturing.arrow_tables import joined
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration
from millstream.taskmanager.worker.state.declarations import declare_keyed, ttl_settings
from millstream.taskmanager.worker.state.function_state import TaskInitializationContext, TaskSnapshotContext
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "USER_TIMERS",
    "WINDOW_CONTENTS",
    "WINDOW_TIMERS",
    "KeyedBootstrap",
    "OperatorBootstrap",
    "described_state",
    "ttl_settings",
]


def described_state(
    descriptor: StateDescriptor, key_type: TypeInformation, namespace_type: TypeInformation | None = None
) -> StateSnapshot:
    """A state that a program declares, as the metadata of a snapshot describes it."""
    return _described(declare_keyed(descriptor, key_type, namespace_type))


def _described(declaration: StateDeclaration) -> StateSnapshot:
    return replace(declaration.types.snapshot(declaration.name, declaration.kind), ttl=declaration.ttl)


class KeyedBootstrap:
    """A function that is opened once, called for each record with its key, and closed; then its state is taken."""

    def __init__(
        self, function: Any, operator: str, key_type: TypeInformation, max_parallelism: int,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        clock = clock or SystemClock()
        self._function: Any = function
        self._backend = HashMapStateBackend().keyed_backend(operator, key_type, KeyGroupIndex(max_parallelism), clock)
        timers = OperatorTimers(clock)
        timers.use(self._backend.timers(USER_TIMERS))
        self._context = _RecordContext(self._backend, timers)
        runtime_context = _runtime_context(operator, max_parallelism)
        runtime_context.keyed_backend = self._backend
        if isinstance(function, Function):
            function.open(runtime_context)

    def process(self, key: Any, value: Any) -> None:
        """Has the function see a record of a key."""
        self._backend.set_current_key(key)
        self._function.process_element(value, self._context)

    def finish(self) -> list[tuple[StateSnapshot, pa.Table]]:
        """Closes the function. Returns all that it has left, sorted by key group."""
        self._backend.clear_current_key()
        self._function.close()
        captured = self._backend.capture(0)
        try:
            return [(_described(s.declaration), table) for s in captured.states for table in joined(s.parts())]
        finally:
            captured.release()
            self._backend.close()

    def abort(self) -> None:
        """Closes the function after it, or anything else, has failed."""
        self._function.close()
        self._backend.close()


class OperatorBootstrap:
    """A function with operator state: opened once, called for each record, and closed; then its state is taken."""

    def __init__(self, function: Any, operator: str, max_parallelism: int, clock: Clock | None = None) -> None:
        self._function: Any = function
        self._clock = clock or SystemClock()
        self._backend = HashMapStateBackend().operator_backend(operator)
        context = _runtime_context(operator, max_parallelism)
        function.open(context)
        function.initialize_state(TaskInitializationContext(self._backend.store, context))

    def process(self, _key: None, value: Any) -> None:
        """Has the function see a record, which has no key."""
        self._function.process_element(value)

    def finish(self) -> list[tuple[StateSnapshot, pa.Table]]:
        """Has the function bring its state up to date, and closes it. Returns all that it has left."""
        self._function.snapshot_state(TaskSnapshotContext(0, self._clock.now_ms()))
        self._function.close()
        return [
            (
                _described(state.declaration),
                broadcast_table(state.contents, state.declaration.types)
                if state.declaration.kind is StateKind.BROADCAST
                else element_table(state.contents, state.declaration.types),
            )
            for state in self._backend.capture(0).states
        ]

    def abort(self) -> None:
        """Closes the function after it, or anything else, has failed."""
        self._function.close()


def _runtime_context(operator: str, max_parallelism: int) -> TaskRuntimeContext:
    deployment = TaskDeployment(
        NO_ATTEMPT, JobId("bootstrap"), VertexId(operator), operator, subtask=0, parallelism=1,
        max_parallelism=max_parallelism, attempt=0, chain=b"",
    )  # fmt: skip
    return TaskRuntimeContext(deployment, operator, {}, {}, {})


class _RecordContext(KeyedContext):
    def __init__(self, backend: Any, timers: TimerService) -> None:
        self._backend = backend
        self._timers = timers

    def timestamp(self) -> int | None:
        """Rows at rest have none."""
        return None

    def timer_service(self) -> TimerService:
        """Timers of the current key; they fire in the job that starts from the savepoint."""
        return self._timers

    def get_current_key(self) -> Any:
        """The key of the current record."""
        return self._backend.get_current_key()
