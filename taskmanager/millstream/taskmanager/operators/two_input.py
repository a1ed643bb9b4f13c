"""Operators on two connected streams: `process` takes the batches of the first one, `process2` those of the second.

The task hands over whole batches, its inputs taking turns; between the two streams there is no other order. When both
streams are keyed, each record's key is entered before the user's function sees the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.core import plan
from millstream.core.batches import Batch, RowBatch
from millstream.core.conversion import record_batch_to_rows
from millstream.core.types import TypeInformation
from millstream.datastream.functions import OutputTag, RuntimeContext
from millstream.taskmanager.operators.base import Emit, FunctionOperator
from millstream.taskmanager.operators.record_context import KeyedRecordContext, RecordContext
from millstream.taskmanager.partitioning import key_function
from millstream.taskmanager.state.backend import KeyedStateBackend

KeyOf = Callable[[Any], Any]
TwoInputSpec = plan.CoMapSpec | plan.CoFlatMapSpec | plan.CoProcessSpec | plan.BroadcastProcessSpec


class TwoInputOperator(FunctionOperator):
    """Base of operators with a second input, which may be of another type than the first."""

    def __init__(
        self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, second_type: TypeInformation,
        spec: TwoInputSpec, keyed_state: KeyedStateBackend | None = None,
    ):  # fmt: skip
        super().__init__(name, context, input_type, emit, spec.function)
        keys = spec.keys
        self._second_type = second_type
        self.keyed_state = keyed_state
        self._first_key: KeyOf | None = None if keys is None else key_function(keys.first)
        self._second_key: KeyOf | None = (
            None if keys is None or keys.second is None else key_function(keys.second)
        )

    def process2(self, batch: Batch) -> None:
        """Each batch of the second input."""
        raise NotImplementedError

    def second_rows_of(self, batch: Batch) -> list[Any]:
        """The records of a batch of the second input as Python objects."""
        if isinstance(batch, RowBatch):
            return batch.rows
        return record_batch_to_rows(batch.data, self._second_type)

    def entering(self, records: Iterator[Any], key_of: KeyOf | None) -> Iterator[Any]:
        """The records, each handed out after its key was entered."""
        if self.keyed_state is None or key_of is None:
            return records
        return _entering(records, key_of, self.keyed_state.set_current_key)

    def leave_key(self) -> None:
        """After each batch: there is no key any more, and using keyed state is an error."""
        if self.keyed_state is not None:
            self.keyed_state.clear_current_key()


def _entering(records: Iterator[Any], key_of: KeyOf, enter: Callable[[Any], None]) -> Iterator[Any]:
    for record in records:
        enter(key_of(record))
        yield record


class CoMapOperator(TwoInputOperator):
    """At most one record out for each one in: None is dropped."""

    def process(self, batch: Batch) -> None:
        """Maps each record of the first input."""
        self._map(self.rows_of(batch), self.timestamps_of(batch), self.function.map1, self._first_key)

    def process2(self, batch: Batch) -> None:
        """Maps each record of the second input."""
        self._map(self.second_rows_of(batch), self.timestamps_of(batch), self.function.map2, self._second_key)

    def _map(self, rows: list[Any], times: list[int] | None, call: Callable[[Any], Any], key_of: KeyOf | None) -> None:
        source = iter(rows)
        out_times: list[int] | None = None
        try:
            if times is None:
                out = [result for row in self.entering(source, key_of) if (result := call(row)) is not None]
            else:
                out, out_times = [], []
                for position, row in enumerate(self.entering(source, key_of)):
                    result = call(row)
                    if result is not None:
                        out.append(result)
                        out_times.append(times[position])
        except Exception as error:
            raise self.failed(error, rows, source) from error
        finally:
            self.leave_key()
        if out:
            self.emit(RowBatch(out, out_times))


class CoFlatMapOperator(TwoInputOperator):
    """Any number of records out for each one in."""

    def process(self, batch: Batch) -> None:
        """Gathers what each record of the first input gives; None means nothing."""
        self._flat_map(self.rows_of(batch), self.timestamps_of(batch), self.function.flat_map1, self._first_key)

    def process2(self, batch: Batch) -> None:
        """Gathers what each record of the second input gives; None means nothing."""
        self._flat_map(self.second_rows_of(batch), self.timestamps_of(batch), self.function.flat_map2, self._second_key)

    def _flat_map(
        self, rows: list[Any], times: list[int] | None, call: Callable[[Any], Any], key_of: KeyOf | None
    ) -> None:
        source = iter(rows)
        out: list[Any] = []
        extend = out.extend
        out_times: list[int] = []
        try:
            for position, row in enumerate(self.entering(source, key_of)):
                results = call(row)
                if results is not None:
                    extend(results)
                    if times is not None:
                        out_times += [times[position]] * (len(out) - len(out_times))
        except Exception as error:
            raise self.failed(error, rows, source) from error
        finally:
            self.leave_key()
        if out:
            self.emit(RowBatch(out, None if times is None else out_times))


class ProcessingOperator(TwoInputOperator):
    """Base of operators whose function gets a context and may emit to side outputs."""

    def run(
        self, rows: list[Any], times: list[int] | None, call: Callable[..., Any], ctx: Any, key_of: KeyOf | None
    ) -> None:
        """Each record in turn; the main output's results of a batch leave together, before its side outputs."""
        out: list[Any] = []
        out_times: list[int] = []
        side: dict[str, RowBatch] = {}
        set_key = None if self.keyed_state is None else self.keyed_state.set_current_key
        source = iter(rows)
        try:
            for position, row in enumerate(source):
                if key_of is not None:
                    ctx.key = key = key_of(row)
                    if set_key is not None:
                        set_key(key)
                ctx.current = None if times is None else times[position]
                results = call(row, ctx)
                if results is None:
                    continue
                for result in results:
                    if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                        bucket = side.setdefault(result[0].tag_id, RowBatch([], None if times is None else []))
                        bucket.rows.append(result[1])
                        if bucket.timestamps is not None and times is not None:
                            bucket.timestamps.append(times[position])
                    else:
                        out.append(result)
                if times is not None:
                    out_times += [times[position]] * (len(out) - len(out_times))
        except Exception as error:
            raise self.failed(error, rows, source) from error
        finally:
            self.leave_key()
        if out:
            self.emit(RowBatch(out, None if times is None else out_times))
        for tag, bucket in side.items():
            emit = self.emit_side.get(tag)
            if emit is not None:
                emit(bucket)


class CoProcessOperator(ProcessingOperator):
    """Runs a CoProcessFunction, or a KeyedCoProcessFunction when both streams are keyed."""

    def __init__(
        self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, second_type: TypeInformation,
        spec: plan.CoProcessSpec, keyed_state: KeyedStateBackend | None = None,
    ):  # fmt: skip
        super().__init__(name, context, input_type, emit, second_type, spec, keyed_state)
        self._context = RecordContext() if spec.keys is None else KeyedRecordContext()

    def process(self, batch: Batch) -> None:
        """Each record of the first input."""
        call = self.function.process_element1
        self.run(self.rows_of(batch), self.timestamps_of(batch), call, self._context, self._first_key)

    def process2(self, batch: Batch) -> None:
        """Each record of the second input."""
        call = self.function.process_element2
        self.run(self.second_rows_of(batch), self.timestamps_of(batch), call, self._context, self._second_key)
