"""The loop of all kinds of process functions: one input or two, keyed or not, with or without a broadcast stream."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from millstream.core.records.batches import RowBatch
from millstream.core.records.copying import ATOMIC
from millstream.datastream.functions import OutputTag
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import FunctionOperator, KeyOf


class ProcessingOperator(FunctionOperator):
    """Base of operators whose function gets a context and may emit to side outputs."""

    def run(
        self, rows: list[Any], times: array[int] | None, call: Callable[..., Any], ctx: Any, key_of: KeyOf | None
    ) -> None:
        """Calls the function for each record; the main output's results are emitted before the side outputs."""
        out: list[Any] = []
        out_times: list[int] = []
        side: dict[str, RowBatch] = {}
        set_key = None if self.keyed_state is None else self.keyed_state.set_current_key
        source = iter(rows)
        hand_over, copies = self.handover.one, self.handover.copies
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
                        bucket.rows.append(hand_over(result[1]))
                        if bucket.timestamps is not None and times is not None:
                            bucket.timestamps.append(times[position])
                    else:
                        out.append(hand_over(result) if copies and type(result) not in ATOMIC else result)
                if times is not None:
                    out_times += [times[position]] * (len(out) - len(out_times))
            result = results = None
            self.handover.done(rows)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, key_of) from error
        finally:
            self.leave_key()
        if out:
            self.output.emit(RowBatch(out, None if times is None else out_times))
        for tag, bucket in side.items():
            output = self.side_outputs.get(tag)
            if output is not None:
                output.emit(bucket)
