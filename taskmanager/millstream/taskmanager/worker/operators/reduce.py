"""The rolling reduce of a keyed stream: its value per key is kept in the keyed state backend.

In batch mode only the last value of each key is emitted, when the key ends or the input does.

A value is both kept and emitted, so a function that modifies its first argument in place would change results that were
emitted before, and a consumer that modifies a result would change the state. Where values are mutable, copies are kept
and emitted. Whether they are is known from the declared type or from the function's code, otherwise from each value.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millstream.core.jobs.plan import plan
from millstream.core.jobs.progress import AwaitingEnd, OperatorProgress
from millstream.core.records.adoption import Adopt, adopter
from millstream.core.records.batches import LAST_WATERMARK, MAX_TIMESTAMP, TIMESTAMP, Batch, RowBatch, StreamSignal
from millstream.core.records.copying import is_immutable_type
from millstream.core.records.function_code import getter, only_calculates, picked
from millstream.datastream.adapters.aggregations import FieldAggregation, MaxBy, MinBy
from millstream.datastream.functions import Function, as_callable
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import FunctionOperator
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.partitioning import key_function
from millstream.taskmanager.worker.state.backend import KeyedStateBackend

_TABLE = "reduce"
_AT_ONCE = 2048  # results per batch
_CHANGING_NOTHING = (FieldAggregation, MinBy, MaxBy)


@builds(plan.ReduceSpec)
class ReduceOperator(FunctionOperator):
    """Emits the key's new value for every record, or at the end."""

    def __init__(self, setup: OperatorSetup, spec: plan.ReduceSpec) -> None:
        super().__init__(setup, spec.function)
        backend = setup.keyed_state(spec.key_type)
        adopt = adopter(spec.value_type)
        self._reduce = _adopting(as_callable(spec.function, "reduce"), adopt)
        self._key_of = key_function(spec.key_selector)
        self._getter = getter(self._key_of)
        self.keyed_state: KeyedStateBackend = backend
        self._uses_keys = may_ask_for_state(spec.function)
        self._table = backend.table(_TABLE, spec.value_type)
        self._only_last = spec.only_last
        self._taken = 0  # records, in total
        self._never_changed = is_immutable_type(spec.value_type) or isinstance(spec.function, _CHANGING_NOTHING)
        # Nothing is known of restored values.
        self._all_plain = only_calculates(spec.function) and adopt is None and setup.services.restored is None

    def process(self, batch: Batch) -> None:
        """Folds the records into the state."""
        rows, key_of = self.rows_of(batch), self._key_of
        source = iter(rows)
        self._all_plain = self._all_plain and self.is_plain(batch)
        try:
            keys = picked(self._getter, rows)
            if keys is None:
                keys = [key_of(row) for row in source]
                source = iter(rows)
            records = _entering(source, keys, self.keyed_state.set_current_key) if self._uses_keys else source
            if self._never_changed or self._all_plain or not self.handover.copies:
                results = self._table.fold(keys, records, self._reduce)
            else:
                results = self._table.fold(keys, records, self._reduce, self.handover)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, key_of) from error
        finally:
            if self._uses_keys:
                self.leave_key()
        self._taken += len(rows)
        if not self._only_last:
            self.output.emit(batch.with_rows(results, self._all_plain or self.handover.plain))

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Emits retained results before the last watermark."""
        if signal == LAST_WATERMARK:
            self.end_key()
        super().on_signal(signal, input_index)

    def progress(self) -> OperatorProgress | None:
        """The records taken, if results are emitted at the end."""
        return OperatorProgress(self.name, AwaitingEnd(self._taken)) if self._only_last else None

    @property
    def ends_keys(self) -> bool:
        """True if only the last value of each key is emitted."""
        return self._only_last

    def end_key(self) -> None:
        """Emits the key's value, with the highest timestamp."""
        if not self._only_last:
            return
        keys = self.keyed_state.entries(_TABLE)
        for start in range(0, len(keys), _AT_ONCE):
            values = self._table.get_all(keys[start : start + _AT_ONCE])
            self.output.emit(RowBatch(values, array(TIMESTAMP, [MAX_TIMESTAMP]) * len(values), self._all_plain))


def _adopting(reduce: Callable[..., Any], adopt: Adopt | None) -> Callable[..., Any]:
    """Wraps the function so that its results are converted to their declared type."""
    return reduce if adopt is None else lambda old, new: adopt(reduce(old, new))


def may_ask_for_state(function: Any) -> bool:
    """Whether a rich function has a method in which it could access state."""
    opens = isinstance(function, Function) and type(function).open is not Function.open
    return opens or isinstance(function, CheckpointedFunction)


def _entering(records: Iterator[Any], keys: Iterable[Any], enter: Callable[[Any], None]) -> Iterator[Any]:
    """Iterates over the records; the key of each is set before it is returned."""
    for key, record in zip(keys, records, strict=True):
        enter(key)
        yield record
