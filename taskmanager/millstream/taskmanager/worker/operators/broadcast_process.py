"""A stream, keyed or not, connected with a broadcast stream, which alone writes the broadcast states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from millstream.core.jobs.plan import plan
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.datastream.functions import (
    BroadcastContext,
    BroadcastTimerContext,
    KeyedBroadcastContext,
    KeyedReadOnlyBroadcastContext,
    KeyedStateFunction,
    ReadOnlyBroadcastContext,
)
from millstream.datastream.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    State,
    StateAccessError,
)
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.timerservice import TimerService
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.record_context import KeyedRecordContext, RecordContext, TimerContext
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.timing import TimingOperator
from millstream.taskmanager.worker.operators.two_input import TwoInputOperator
from millstream.taskmanager.worker.state.backend import KeyedStateBackend

S = TypeVar("S")


class ReadOnlyView(ReadOnlyBroadcastState[Any, Any]):
    """The read-only view of a broadcast state for the other stream. Writing raises a StateAccessError."""

    def __init__(self, name: str, state: BroadcastState[Any, Any]) -> None:
        self._name = name
        self._state = state

    @override
    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        return self._state.contains(key)

    @override
    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    @override
    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    @override
    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        """Whether the map has no entries."""
        return self._state.is_empty()

    def clear(self) -> NoReturn:
        """Raises: the state is read-only."""
        self._refuse()

    def put(self, key: Any, value: Any) -> NoReturn:
        """Raises: the state is read-only."""
        self._refuse()

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> NoReturn:
        """Raises: the state is read-only."""
        self._refuse()

    def remove(self, key: Any) -> NoReturn:
        """Raises: the state is read-only."""
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse()

    def __delitem__(self, key: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StateAccessError(
            f"the broadcast state '{self._name}' is read-only in process_element; write it in "
            "process_broadcast_element, which every subtask runs for every broadcast record"
        )


class _BroadcastContext(RecordContext, BroadcastContext):
    def __init__(self, timers: TimerService, states: dict[str, BroadcastState[Any, Any]]) -> None:
        super().__init__(timers)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return _of(self._states, state_descriptor)


class _KeyedBroadcastContext(_BroadcastContext, KeyedBroadcastContext):
    def __init__(
        self, timers: TimerService, states: dict[str, BroadcastState[Any, Any]],
        backend: KeyedStateBackend, state_of: Callable[[StateDescriptor], State],
    ) -> None:  # fmt: skip
        super().__init__(timers, states)
        self._backend = backend
        self._state_of = state_of

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
    ) -> None:
        if not isinstance(state_descriptor, StateDescriptor):
            raise StateAccessError(f"apply_to_keyed_state: expected a StateDescriptor, not {state_descriptor!r}")
        call = function.process if isinstance(function, KeyedStateFunction) else function
        state = self._state_of(state_descriptor)
        try:
            for key in self._backend.entries(state_descriptor.name):
                self._backend.set_current_key(key)
                call(key, state)
        finally:
            self._backend.clear_current_key()


class _ReadOnlyContext(RecordContext, ReadOnlyBroadcastContext):
    def __init__(self, timers: TimerService, views: dict[str, ReadOnlyView]) -> None:
        super().__init__(timers)
        self._views = views

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return _of(self._views, state_descriptor)


class _KeyedReadOnlyContext(_ReadOnlyContext, KeyedRecordContext, KeyedReadOnlyBroadcastContext):
    pass


class _TimerContext(_KeyedReadOnlyContext, TimerContext, BroadcastTimerContext):
    pass


def _of(states: dict[str, S], descriptor: MapStateDescriptor) -> S:
    if not isinstance(descriptor, MapStateDescriptor):
        raise StateAccessError(f"get_broadcast_state: expected a MapStateDescriptor, not {descriptor!r}")
    found = states.get(descriptor.name)
    if found is None:
        known = ", ".join(f"'{name}'" for name in states)
        raise StateAccessError(
            f"unknown broadcast state '{descriptor.name}', only {known} exist; pass its descriptor to broadcast(...)"
        )
    return found


@builds(plan.BroadcastProcessSpec)
class BroadcastProcessOperator(TwoInputOperator, TimingOperator):
    """Runs a BroadcastProcessFunction, or a KeyedBroadcastProcessFunction when the first stream is keyed."""

    def __init__(self, setup: OperatorSetup, spec: plan.BroadcastProcessSpec) -> None:
        super().__init__(setup, spec)
        self.operator_state = setup.operator_state()
        self._store = self.operator_state.store
        self._descriptors = spec.descriptors
        self._states: dict[str, BroadcastState[Any, Any]] = {}
        self._views: dict[str, ReadOnlyView] = {}
        self._broadcast_context = self._make_broadcast_context(setup)
        made = _ReadOnlyContext if spec.keys is None else _KeyedReadOnlyContext
        self._read_only_context = made(self.timer_service, self._views)
        if spec.keys is not None:
            self.set_up_timers(_TimerContext(self.timer_service, self._views))

    def _make_broadcast_context(self, setup: OperatorSetup) -> _BroadcastContext:
        if self.keyed_state is None:
            return _BroadcastContext(self.timer_service, self._states)
        return _KeyedBroadcastContext(self.timer_service, self._states, self.keyed_state, setup.context.keyed_state)

    def open(self) -> None:
        """Creates the states, then opens the user function."""
        try:
            for descriptor in self._descriptors:
                state = self._store.get_broadcast_state(descriptor)
                self._states[descriptor.name] = state
                self._views[descriptor.name] = ReadOnlyView(descriptor.name, state)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD, error) from error
        super().open()

    def process(self, batch: Batch) -> None:
        """Processes each record that is not broadcast."""
        call = self.function.process_element
        self.run(self.rows_of(batch), batch.row_times(), call, self._read_only_context, self._first_key)

    def process2(self, batch: Batch) -> None:
        """Processes each broadcast record, without a key."""
        call = self.function.process_broadcast_element
        self.run(self.second_rows_of(batch), batch.row_times(), call, self._broadcast_context, None)
