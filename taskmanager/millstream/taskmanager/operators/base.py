"""What all operators share.

Call order: `open` once, `process` for each batch, `finish` once when the input ended, `close` exactly once on every
path. None of them may block, except a user's own function: blocking there is backpressure. An operator emits through
`emit`; it never keeps or changes a batch after that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from millstream.core.batches import Batch, RowBatch
from millstream.core.conversion import record_batch_to_rows
from millstream.core.types import TypeInformation
from millstream.datastream.functions import Function, RuntimeContext

Emit = Callable[[Batch], None]

NO_RECORD = object()


class OperatorError(Exception):
    """A user's function failed: which operator's, on which record, and how (`__cause__`)."""

    def __init__(self, operator_name: str, record: Any, cause: BaseException) -> None:
        super().__init__(f"{operator_name}: {cause!r}")
        self.operator_name = operator_name
        self.record = record
        self.__cause__ = cause


class Operator:
    """Base of all operators: passes nothing on by itself."""

    def __init__(self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit) -> None:
        self.name = name
        self.context = context
        self.input_type = input_type
        self.emit = emit
        self.emit_side: dict[str, Emit] = {}

    def open(self) -> None:
        """Before the first record."""

    def process(self, batch: Batch) -> None:
        """Each batch."""
        raise NotImplementedError

    def finish(self) -> None:
        """After the last record of a bounded input: emit what is left."""

    def close(self) -> None:
        """At the very end, also after a failure."""

    def rows_of(self, batch: Batch) -> list[Any]:
        """The batch's records as Python objects."""
        if isinstance(batch, RowBatch):
            return batch.rows
        return record_batch_to_rows(batch.data, self.input_type)

    def timestamps_of(self, batch: Batch) -> list[int] | None:
        """The batch's timestamps as a list."""
        if isinstance(batch, RowBatch) or batch.timestamps is None:
            return batch.timestamps
        return batch.timestamps.to_pylist()  # type: ignore[no-any-return]  # an Arrow array of int64

    def failed(self, cause: BaseException, rows: list[Any], source: Iterator[Any]) -> OperatorError:
        """The error for the record that `source`, an iterator over `rows`, handed out last."""
        return OperatorError(self.name, rows[len(rows) - operator.length_hint(source) - 1], cause)


class FunctionOperator(Operator):
    """Base of operators around one user function: opens and closes it when it is a rich one."""

    def __init__(
        self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, function: Any
    ) -> None:
        super().__init__(name, context, input_type, emit)
        self.function = function

    def open(self) -> None:
        """Opens the user's function."""
        if isinstance(self.function, Function):
            try:
                self.function.open(self.context)
            except Exception as error:
                raise OperatorError(self.name, NO_RECORD, error) from error

    def close(self) -> None:
        """Closes the user's function."""
        if isinstance(self.function, Function):
            try:
                self.function.close()
            except Exception as error:
                raise OperatorError(self.name, NO_RECORD, error) from error
