"""Collects the results of several calls of a function, each with a timestamp of its own."""

from __future__ import annotations

from typing import Any

from millstream.core.records.batches import RowBatch
from millstream.core.records.copying import ATOMIC
from millstream.datastream.functions import OutputTag
from millstream.taskmanager.worker.operators.base import Operator

_AT_ONCE = 2048  # results, before they are emitted


class Results:
    """Collects results until they are emitted. Each result passes through the operator's handover."""

    def __init__(self, operator: Operator, stamped: bool) -> None:
        self._operator = operator
        self._stamped = stamped
        self._main = self._empty()
        self._side: dict[str, RowBatch] = {}

    def _empty(self) -> RowBatch:
        return RowBatch([], [] if self._stamped else None)

    def add(self, results: Any, timestamp: int) -> None:
        """Adds the results of one call, with its timestamp; `(tag, result)` is for a side output."""
        rows, times = self._main.rows, self._main.timestamps
        for result in results:
            if type(result) is tuple:
                if len(result) == 2 and isinstance(result[0], OutputTag):
                    self._add_to_side(result[0], result[1], timestamp)
                    continue
                for item in result:
                    if type(item) not in ATOMIC:
                        result = self._operator.handover.one(result)
                        break
            elif type(result) not in ATOMIC:
                result = self._operator.handover.one(result)
            rows.append(result)
            if times is not None:
                times.append(timestamp)
        if len(rows) >= _AT_ONCE:
            self.emit()

    def _add_to_side(self, tag: OutputTag, result: Any, timestamp: int) -> None:
        batch = self._side.setdefault(tag.tag_id, self._empty())
        batch.rows.append(self._operator.handover.one(result))
        if batch.timestamps is not None:
            batch.timestamps.append(timestamp)

    def add_all(self, results: list[Any], timestamp: int) -> None:
        """Adds results of many calls for the main output, all with the same timestamp."""
        handover = self._operator.handover
        self._main.rows.extend(map(handover.one, results) if handover.copies else results)
        if self._main.timestamps is not None:
            self._main.timestamps.extend([timestamp] * len(results))
        if len(self._main) >= _AT_ONCE:
            self.emit()

    def emit(self) -> None:
        """Emits what was collected."""
        main, self._main = self._main, self._empty()
        side, self._side = self._side, {}
        if len(main):
            self._operator.output.emit(main)
        for tag, batch in side.items():
            output = self._operator.side_outputs.get(tag)
            if output is not None:
                output.emit(batch)
