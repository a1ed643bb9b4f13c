"""The contexts of triggers, assigners and window functions. One object each serves all windows of an operator."""

from __future__ import annotations

import copy
from typing import Any

from millstream.core.overriding import override
from millstream.datastream.functions import MetricGroup, RuntimeContext
from millstream.datastream.state import KeyedStateStore, State
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.window import Trigger, WindowAssigner
from millstream.taskmanager.worker.operators.time.timer_service import OperatorTimers
from millstream.taskmanager.worker.operators.windows.spaces import WindowSpace
from millstream.taskmanager.worker.state.adopting import adopting
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.timers import Timers


class WindowStates(KeyedStateStore):
    """State scoped to the current key and `namespace`; its names begin with the prefix."""

    def __init__(self, backend: KeyedStateBackend, space: WindowSpace, prefix: str) -> None:
        self._backend = backend
        self._space = space
        self._prefix = prefix
        self._states: dict[str, Any] = {}
        self.namespace: Any = None

    def keyed_state(self, descriptor: StateDescriptor) -> State:
        """The state of a descriptor in this window."""
        state = self._states.get(descriptor.name)
        if state is None:
            named = copy.copy(descriptor)
            named.name = f"{self._prefix}{descriptor.name}"
            state = adopting(named, lambda d: self._backend.state(d, self._space.type))
            self._states[descriptor.name] = state
        state.set_namespace(self.namespace)
        return state  # type: ignore[no-any-return]  # as its descriptor declares


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The assigner's context in one operator."""

    def __init__(self, clocks: OperatorTimers, context: RuntimeContext) -> None:
        self._clocks = clocks
        self._context = context

    @override
    def get_current_processing_time(self) -> int:
        return self._clocks.current_processing_time()

    def get_runtime_context(self) -> RuntimeContext:
        """The runtime context of the operator."""
        return self._context


class WindowTriggerContext(Trigger.OnMergeContext):
    """The context for the window whose namespace is set; `merged` are the namespaces of its parts, if any."""

    def __init__(self, clocks: OperatorTimers, timers: Timers, states: WindowStates, context: RuntimeContext) -> None:
        self._clocks = clocks
        self._timers = timers
        self._states = states
        self._context = context
        self.namespace: Any = None
        self.merged: list[Any] = []

    @override
    def get_current_processing_time(self) -> int:
        return self._clocks.current_processing_time()

    @override
    def get_current_watermark(self) -> int:
        return self._clocks.watermark

    def get_metric_group(self) -> MetricGroup:
        """The metric group of the operator."""
        return self._context.get_metrics_group()

    def register_processing_time_timer(self, time: int) -> None:
        """Registers a timer that calls `on_processing_time` for this window."""
        if not self._clocks.quiesced:
            self._timers.processing.register(time, self.namespace)

    def register_event_time_timer(self, time: int) -> None:
        """Registers a timer that calls `on_event_time` for this window."""
        if not self._clocks.quiesced:
            self._timers.event.register(time, self.namespace)

    @override
    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.processing.delete(time, self.namespace)

    @override
    def delete_event_time_timer(self, time: int) -> None:
        self._timers.event.delete(time, self.namespace)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        """The trigger's own state, for this key and window."""
        self._states.namespace = self.namespace
        return self._states.keyed_state(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merges the states of the merged windows into one."""
        state: Any = self.get_partitioned_state(state_descriptor)
        state.merge_namespaces(self.namespace, self.merged)
