"""The evaluation of expressions: shared and constant parts, functions of another language, rows without a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.core.expressions import (
    Call,
    Cast,
    Column,
    EvaluationError,
    Evaluator,
    Expression,
    Function,
    Signature,
    literal_of,
    register,
    resolve,
)
from millstream.core.expressions.functions import registry
from millstream.core.records.schema import BigIntType, DoubleType, Field, IntType, Schema

INT, LONG = IntType(), BigIntType()
SCHEMA = Schema((Field("a", INT), Field("b", INT), Field("x", DoubleType(nullable=False))))
DATA = pa.record_batch(
    {
        "a": pa.array([7, -7, None, 2**31 - 1], pa.int32()),
        "b": pa.array([2, 2, 2, 1], pa.int32()),
        "x": pa.array([0.5, 1.0, 2.0, 4.0]),
    }
)


class WrappingAdd(Function):
    """`+` of SQL: of two INTs an INT, which wraps around."""

    name = "test.plus"

    def __init__(self) -> None:
        self.calls = 0

    def signature(self, arguments: Sequence[Expression]) -> Signature:
        return Signature((INT, INT), INT)

    def evaluate(self, arguments: Sequence[Any]) -> Any:
        self.calls += 1
        return pc.add(*arguments)


@pytest.fixture
def plus(monkeypatch: pytest.MonkeyPatch) -> WrappingAdd:
    monkeypatch.setattr(registry, "_FUNCTIONS", dict(registry._FUNCTIONS))  # restored behind the test
    function = WrappingAdd()
    register(function)
    return function


def values(*expressions: Expression) -> list[list[Any]]:
    evaluator = Evaluator([resolve(expression, SCHEMA) for expression in expressions])
    return [array.to_pylist() for array in evaluator.evaluate(DATA)]


def call(function: str, *arguments: Any) -> Call:
    kinds = (Column, Call, Cast)
    return Call(function, tuple(a if isinstance(a, kinds) else literal_of(a) for a in arguments))


def test_a_function_brings_its_own_rules(plus: WrappingAdd) -> None:
    sums = resolve(call("test.plus", Column("a"), Column("b")), SCHEMA)
    assert sums.type == INT
    assert Evaluator([sums]).evaluate(DATA)[0].to_pylist() == [9, -5, None, -(2**31)]
    assert values(call("add", Column("a"), Column("b"))) == [[9, -5, None, 2**31]]


def test_equal_parts_are_evaluated_once(plus: WrappingAdd) -> None:
    part = call("test.plus", Column("a"), Column("b"))
    assert values(call("equal", part, part), call("test.plus", Column("a"), Column("b"))) == [
        [True, True, None, True], [9, -5, None, -(2**31)],
    ]  # fmt: skip
    assert plus.calls == 1


def test_constants_are_evaluated_when_the_evaluator_is_made(plus: WrappingAdd) -> None:
    constant = resolve(call("less", Column("a"), call("test.plus", 3, call("test.plus", 1, 2))), SCHEMA)
    evaluator = Evaluator([constant])
    assert plus.calls == 2
    for _ in range(3):
        assert evaluator.evaluate(DATA)[0].to_pylist() == [False, True, None, False]
    assert (plus.calls, evaluator.columns) == (2, ["a"])


def test_zeros_of_both_signs_are_different_constants() -> None:
    quotients = [call("multiply", Column("x"), zero) for zero in (0.0, -0.0)]
    assert [repr(found[0]) for found in values(*quotients)] == ["0.0", "-0.0"]


def test_the_first_row_without_a_value_is_found() -> None:
    evaluator = Evaluator([resolve(call("floor_divide", 1, call("subtract", Column("b"), 1)), SCHEMA)])
    with pytest.raises(EvaluationError, match=r"1 // \(.*col\('b'\).* - 1\): divide by zero"):
        evaluator.evaluate(DATA)
    assert evaluator.failing_row(DATA) == 3
    assert evaluator.evaluate(DATA.slice(0, 3))[0].to_pylist() == [1, 1, 1]


def test_a_conversion_keeps_whether_there_may_be_null() -> None:
    assert resolve(Cast(Column("x"), LONG), SCHEMA).type == LONG.not_null()
    assert resolve(Cast(Column("a"), LONG), SCHEMA).type == LONG
    assert values(Cast(Column("x"), LONG)) == [[0, 1, 2, 4]]
