"""The rolling reduce of a keyed stream: its value per key lives in the keyed state backend."""

from __future__ import annotations

from millstream.core import plan
from millstream.core.batches import Batch, RowBatch
from millstream.core.types import TypeInformation
from millstream.datastream.functions import RuntimeContext, as_callable
from millstream.taskmanager.operators.base import Emit, FunctionOperator
from millstream.taskmanager.partitioning import key_function
from millstream.taskmanager.state.backend import KeyedStateBackend


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

    def process(self, batch: Batch) -> None:
        """Folds the batch into the state."""
        rows = self.rows_of(batch)
        source = iter(rows)
        try:
            keys = list(map(self._key_of, source))
            source = iter(rows)
            results = self._table.fold(keys, source, self._reduce)
        except Exception as error:
            raise self.failed(error, rows, source) from error
        self.emit(RowBatch(results, self.timestamps_of(batch)))
