"""Rich functions on keyed streams: as keyed process functions, so that they can use keyed state as PyFlink's do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.core.jobs.plan.plan import FilterSpec, FlatMapSpec, KeyedProcessSpec, KeySelector, MapSpec, OperatorSpec
from millstream.core.overriding import override
from millstream.core.records.types import TypeInformation
from millstream.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedContext,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from millstream.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)


class _Adapted(KeyedProcessFunction, CheckpointedFunction):
    """Forwards the calls of its task to the rich function inside, as far as that has the methods."""

    def __init__(self, function: Function) -> None:
        self.function: Any = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        if isinstance(self.function, CheckpointedFunction):
            self.function.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if isinstance(self.function, CheckpointedFunction):
            self.function.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.function.notify_checkpoint_aborted(checkpoint_id)


class KeyedMapAdapter(_Adapted):
    """A MapFunction on a keyed stream."""

    @override
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        return (self.function.map(value),)


class KeyedFlatMapAdapter(_Adapted):
    """A FlatMapFunction on a keyed stream."""

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Returns what the function returns or yields."""
        results: Iterable[Any] | None = self.function.flat_map(value)
        return results


class KeyedFilterAdapter(_Adapted):
    """A FilterFunction on a keyed stream."""

    @override
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        return (value,) if self.function.filter(value) else ()


def with_keys(spec: OperatorSpec, key_selector: KeySelector, key_type: TypeInformation) -> OperatorSpec:
    """The specification with the stream's keys when its function may ask for keyed state; plain callables cannot."""
    match spec:
        case MapSpec(MapFunction() as function):
            return KeyedProcessSpec(KeyedMapAdapter(function), key_selector, key_type, spec.kind)
        case FlatMapSpec(FlatMapFunction() as function):
            return KeyedProcessSpec(KeyedFlatMapAdapter(function), key_selector, key_type, spec.kind)
        case FilterSpec(FilterFunction() as function):
            return KeyedProcessSpec(KeyedFilterAdapter(function), key_selector, key_type, spec.kind)
    return spec
