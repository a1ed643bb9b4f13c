"""Evaluates resolved expressions over columns, with one call of Arrow for each node and batch.

Equal parts of expressions are evaluated once, and constant ones when the evaluator is made. All arguments are evaluated
for all rows at first, since that is fastest. Where this fails, arguments that a condition decides on are evaluated for
the rows that need them only, from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from millstream.core.expressions.conversions import converter
from millstream.core.expressions.errors import EvaluationError
from millstream.core.expressions.functions import Function, function_named
from millstream.core.expressions.functions.function import type_of
from millstream.core.expressions.nodes import Call, Cast, Column, Expression, Literal
from millstream.core.expressions.writing import written
from millstream.core.records.schema import to_arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

_Step = Callable[["_Frame"], Any]


class Evaluator:
    """Some expressions, whose parts they share."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._steps: list[_Step] = []
        self._constants: dict[int, Any] = {}
        self._numbers: dict[str, int] = {}
        self._by_need = False
        self._columns: dict[str, None] = {}
        self._types = [to_arrow_type(type_of(expression)) for expression in expressions]
        self._results = [self._number(expression) for expression in expressions]

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        return list(self._columns)

    def evaluate(self, data: pa.RecordBatch) -> list[pa.Array]:
        """Returns the values of each expression.

        The columns of `data` are of the types of the schema. Raises `EvaluationError` if a row has no value.
        """
        if not self._by_need:
            try:
                return self._evaluated(data)
            except EvaluationError:
                self._by_need = True
        return self._evaluated(data)

    def failing_row(self, data: pa.RecordBatch) -> int:
        """The number of the first row that has no value, where `evaluate` raises an error: by halves."""
        first, end = 0, data.num_rows
        while end - first > 1:
            middle = (first + end) // 2
            try:
                self._evaluated(data.slice(first, middle - first))
                first = middle
            except EvaluationError:
                end = middle
        return first

    def _evaluated(self, data: pa.RecordBatch) -> list[pa.Array]:
        frame = _Frame(self._steps, {name: data.column(name) for name in self._columns}, data.num_rows, self._by_need)
        return [
            frame.whole(frame.value(number), kind) for number, kind in zip(self._results, self._types, strict=True)
        ]

    # Compilation

    def _number(self, expression: Expression) -> int:
        """The number of the step of an expression, which is the same for equal ones."""
        key = f"{expression!r}"  # by which 0.0 and -0.0 differ
        found = self._numbers.get(key)
        if found is None:
            step = self._step(expression)
            found = self._numbers[key] = len(self._steps)
            self._steps.append(step)
            self._fold(found, expression)
        return found

    def _step(self, expression: Expression) -> _Step:
        match expression:
            case Column(name=name):
                self._columns[name] = None
                return lambda frame: frame.columns[name]
            case Literal(value=value, type=type):
                return _constant(value, to_arrow_type(type))
            case Cast(operand=operand, type=type):
                number, convert = self._number(operand), converter(type_of(operand), type)
                return _guarded(expression, lambda frame: convert(frame.value(number)))
            case Call(function=name, arguments=arguments):
                numbers = [self._number(argument) for argument in arguments]
                kinds = [to_arrow_type(type_of(argument)) for argument in arguments]
                return _guarded(expression, _call(function_named(name), numbers, kinds))
            case _:
                assert_never(expression)

    def _fold(self, number: int, expression: Expression) -> None:
        """Evaluates a constant now; one that fails is left, since it may not be needed."""
        match expression:
            case Literal():
                inner: list[Expression] = []
            case Cast(operand=operand):
                inner = [operand]
            case Call(arguments=arguments):
                inner = list(arguments)
            case _:
                return
        if all(self._number(part) in self._constants for part in inner):
            try:
                value = _Frame(self._steps, {}, 1, True).value(number)
            except EvaluationError:
                return
            self._constants[number] = value
            self._steps[number] = lambda frame: value


class _Frame:
    """The rows for which steps are evaluated, and the values of those that were."""

    __slots__ = ("_steps", "_values", "by_need", "columns", "rows")

    def __init__(self, steps: list[_Step], columns: dict[str, Any], rows: int, by_need: bool) -> None:
        self._steps = steps
        self._values: list[Any] = [None] * len(steps)
        self.columns = columns
        self.rows = rows
        self.by_need = by_need

    def value(self, number: int) -> Any:
        """The value of a step: an array, or the scalar of a constant."""
        found = self._values[number]
        if found is None:
            found = self._values[number] = self._steps[number](self)
        return found

    def whole(self, value: Any, kind: pa.DataType) -> Any:
        """The value as an array."""
        import pyarrow as pa

        return pa.repeat(value.cast(kind), self.rows) if isinstance(value, pa.Scalar) else value

    def where_needed(self, number: int, kind: pa.DataType, needed: Any) -> Any:
        """The value of a step, null for the rows that do not need it."""
        import numpy as np
        import pyarrow as pa

        if isinstance(needed, pa.Scalar):
            needed = pa.repeat(needed, self.rows)
        if needed.true_count == self.rows:
            return self.value(number)
        if not needed.true_count:  # constants have no rows: they would fail all the same
            return pa.scalar(None, kind)
        rows = {name: column.filter(needed) for name, column in self.columns.items()}
        found = _Frame(self._steps, rows, needed.true_count, True).value(number)
        if isinstance(found, pa.Scalar):
            return found
        chosen = needed.to_numpy(zero_copy_only=False)
        return found.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))


def _call(function: Function, numbers: Sequence[int], kinds: Sequence[pa.DataType]) -> _Step:
    def call(frame: _Frame) -> Any:
        if not (function.is_conditional and frame.by_need):
            return function.evaluate([frame.value(number) for number in numbers])
        arguments = [frame.value(numbers[0])]
        for number, kind in zip(numbers[1:], kinds[1:], strict=True):
            arguments.append(frame.where_needed(number, kind, function.needed(arguments)))
        return function.evaluate(arguments)

    return call


def _constant(value: Any, kind: pa.DataType) -> _Step:
    import pyarrow as pa

    constant = pa.scalar(value, kind)
    return lambda frame: constant


def _guarded(expression: Call | Cast, step: _Step) -> _Step:
    """With the expression in the error."""
    import pyarrow as pa

    def guarded(frame: _Frame) -> Any:
        try:
            return step(frame)
        except pa.ArrowInvalid as error:
            raise EvaluationError(f"{written(expression)}: {' '.join(str(error).split())}") from error

    return guarded
