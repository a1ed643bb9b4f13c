"""Process functions, keyed and not: per record, with a context and side outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core import plan
from millstream.core.batches import Batch, RowBatch
from millstream.core.types import TypeInformation
from millstream.datastream.functions import OutputTag, RuntimeContext
from millstream.taskmanager.operators.base import Emit, FunctionOperator
from millstream.taskmanager.operators.record_context import KeyedRecordContext, RecordContext
from millstream.taskmanager.partitioning import key_function
from millstream.taskmanager.state.backend import KeyedStateBackend


class ProcessOperator(FunctionOperator):
    """Runs a ProcessFunction, or a KeyedProcessFunction when a key selector is given."""

    def __init__(
        self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, function: Any,
        key_selector: plan.KeySelector | None = None, keyed_state: KeyedStateBackend | None = None,
    ):  # fmt: skip
        super().__init__(name, context, input_type, emit, function)
        self.keyed_state = keyed_state
        self._key_of: Callable[[Any], Any] | None = key_function(key_selector) if key_selector is not None else None
        self._context = RecordContext() if self._key_of is None else KeyedRecordContext()

    def process(self, batch: Batch) -> None:
        """Each record in turn; the main output's results of a batch leave together, before its side outputs."""
        rows, times = self.rows_of(batch), self.timestamps_of(batch)
        call, ctx, key_of = self.function.process_element, self._context, self._key_of
        set_key = None if self.keyed_state is None else self.keyed_state.set_current_key
        out: list[Any] = []
        out_times: list[int] = []
        side: dict[str, RowBatch] = {}
        source = iter(rows)
        try:
            for position, row in enumerate(source):
                if key_of is not None and isinstance(ctx, KeyedRecordContext):
                    ctx.key = key = key_of(row)
                    if set_key is not None:
                        set_key(key)
                ctx.current = times[position] if times is not None else None
                results = call(row, ctx)
                if results is None:
                    continue
                for result in results:
                    if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                        bucket = side.setdefault(result[0].tag_id, RowBatch([], None if times is None else []))
                        bucket.rows.append(result[1])
                        if bucket.timestamps is not None and ctx.current is not None:
                            bucket.timestamps.append(ctx.current)
                    else:
                        out.append(result)
                if times is not None:
                    out_times += [times[position]] * (len(out) - len(out_times))
        except Exception as error:
            raise self.failed(error, rows, source) from error
        finally:
            if self.keyed_state is not None:
                self.keyed_state.clear_current_key()
        if out:
            self.emit(RowBatch(out, out_times if times is not None else None))
        for tag, bucket in side.items():
            emit = self.emit_side.get(tag)
            if emit is not None:
                emit(bucket)
