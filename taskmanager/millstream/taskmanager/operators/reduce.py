"""The rolling reduce of a keyed stream: its value per key lives in the keyed state backend.

A value is both kept and emitted, so a function that changes its first argument in place would change results that
were emitted before. Where values can be changed, the function gets a copy. That is told from the declared type, else
from the first and the last record of each batch: all values of a reduce are of one type, and testing each would cost
more than the 3 % that the loop over immutable values may lose.
"""

from __future__ import annotations

from typing import Any

from millstream.core import plan
from millstream.core.batches import Batch, RowBatch
from millstream.core.types import TypeInformation
from millstream.datastream.aggregations import FieldAggregation, MaxBy, MinBy
from millstream.datastream.functions import RuntimeContext, as_callable
from millstream.taskmanager.operators.base import Emit, FunctionOperator
from millstream.taskmanager.partitioning import key_function
from millstream.taskmanager.state.backend import KeyedStateBackend
from millstream.taskmanager.state.copying import is_immutable, is_immutable_type, private_copy

_CHANGING_NOTHING = (FieldAggregation, MinBy, MaxBy)


class ReduceOperator(FunctionOperator):
    """Emits the key's new value for every record."""

    def __init__(
        self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, spec: plan.ReduceSpec,
        backend: KeyedStateBackend,
    ):  # fmt: skip
        super().__init__(name, context, input_type, emit, spec.function)
        self._reduce = as_callable(spec.function, "reduce")
        self._key_of = key_function(spec.key_selector)
        self.keyed_state = backend
        self._table = backend.reducing_table("reduce", spec.value_type)
        self._never_changed = is_immutable_type(spec.value_type) or isinstance(spec.function, _CHANGING_NOTHING)

    def process(self, batch: Batch) -> None:
        """Folds the batch into the state."""
        rows = self.rows_of(batch)
        source = iter(rows)
        try:
            keys = list(map(self._key_of, source))
            source = iter(rows)
            shared = self._never_changed or all(map(is_immutable, (*rows[:1], *rows[-1:])))
            results = self._table.fold(keys, source, self._reduce if shared else self._reduce_copy)
        except Exception as error:
            raise self.failed(error, rows, source) from error
        self.emit(RowBatch(results, self.timestamps_of(batch)))

    def _reduce_copy(self, before: Any, record: Any) -> Any:
        return self._reduce(private_copy(before), record)
