"""Process functions, keyed and not: per record, with a context and side outputs."""

from __future__ import annotations

from typing import Any

from millstream.core import plan
from millstream.core.batches import Batch
from millstream.core.types import TypeInformation
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.operators.base import Emit
from millstream.taskmanager.operators.processing import ProcessingOperator
from millstream.taskmanager.operators.record_context import KeyedRecordContext, RecordContext
from millstream.taskmanager.partitioning import key_function
from millstream.taskmanager.state.backend import KeyedStateBackend


class ProcessOperator(ProcessingOperator):
    """Runs a ProcessFunction, or a KeyedProcessFunction when a key selector is given."""

    def __init__(
        self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, function: Any,
        key_selector: plan.KeySelector | None = None, keyed_state: KeyedStateBackend | None = None,
    ):  # fmt: skip
        super().__init__(name, context, input_type, emit, function)
        self.keyed_state = keyed_state
        self._key_of = key_function(key_selector) if key_selector is not None else None
        self._context = RecordContext() if self._key_of is None else KeyedRecordContext()

    def process(self, batch: Batch) -> None:
        """Each record in turn."""
        call = self.function.process_element
        self.run(self.rows_of(batch), self.timestamps_of(batch), call, self._context, self._key_of)
