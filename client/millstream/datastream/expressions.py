"""Expressions over named columns: `stream.filter(col("amount") > 100)`, `stream.map(col("amount") * 2)`.

They are evaluated for whole batches by Arrow, without a call for each record, on streams whose type names its fields:
rows, tuples and dataclasses of a declared type, and Arrow batches. Names are those of PyFlink's Table API. Values are
those of Python's operators; beyond that, a value that is None makes the result None, as NULL does in SQL, and a filter
keeps the records for which its condition is true.
"""

from __future__ import annotations

from typing import Any, NoReturn

from millstream.core.errors import InvalidProgramError
from millstream.core.expressions import Call, Cast, Column, literal_of
from millstream.core.expressions import Expression as Node
from millstream.core.records.schema import from_type_information
from millstream.core.records.types import PICKLED, from_hint
from millstream.datastream.adapters.computed import Computed

__all__ = ["Expression", "RowExpression", "coalesce", "col", "if_then_else", "lit", "row"]


class Expression(Computed):
    """A value that is computed from the columns of a record; made by `col`, `lit` and operators.

        (col("amount") > 100) & col("user").in_("ann", "bob")

    Comparisons are joined with `&`, `|` and `~`, and need parentheses then.
    """

    __slots__ = ("name", "node")
    __hash__ = None  # type: ignore[assignment]  # `==` is an expression

    def __init__(self, node: Node, name: str | None = None) -> None:
        self.node = node
        self.name = name

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "an expression has no truth value while the job is built: join conditions with &, | and ~ in place of and, "
            "or and not, and write a < b and b < c as (a < b) & (b < c)"
        )

    def __add__(self, other: Any) -> Expression:
        return _call("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _call("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _call("subtract", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _call("subtract", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _call("multiply", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _call("multiply", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _call("divide", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _call("modulo", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _call("modulo", other, self)

    def __neg__(self) -> Expression:
        return _call("negate", self)

    def __abs__(self) -> Expression:
        return _call("abs", self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # as in PyFlink
        return _call("equal", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # as in PyFlink
        return _call("not_equal", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _call("less", self, other)

    def __le__(self, other: Any) -> Expression:
        return _call("less_equal", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _call("greater", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _call("greater_equal", self, other)

    def __and__(self, other: Any) -> Expression:
        return _call("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _call("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return _call("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _call("or", other, self)

    def __invert__(self) -> Expression:
        return _call("not", self)

    @property
    def is_null(self) -> Expression:
        """Whether the value is None."""
        return _call("is_null", self)

    @property
    def is_not_null(self) -> Expression:
        """Whether the value is not None."""
        return _call("is_not_null", self)

    @property
    def abs(self) -> Expression:
        """The absolute value of a number."""
        return _call("abs", self)

    @property
    def char_length(self) -> Expression:
        """The length of a text, as `len`."""
        return _call("char_length", self)

    @property
    def upper_case(self) -> Expression:
        """A text in capital letters, as `str.upper`."""
        return _call("upper_case", self)

    @property
    def lower_case(self) -> Expression:
        """A text in small letters, as `str.lower`."""
        return _call("lower_case", self)

    def in_(self, *values: Any) -> Expression:
        """Whether the value is one of the constants `values`.

        Raises `InvalidProgramError` for values of several types, for none, and for expressions.

        orders.filter(col("user").in_("ann", "bob"))
        """
        if not values:
            raise InvalidProgramError("in_: name at least one value")
        if any(isinstance(value, Expression) for value in values):
            raise InvalidProgramError("in_: its values are constants; compare with an expression by ==")
        return Expression(Call("in_", (self.node, literal_of(values))))

    def starts_with(self, prefix: str) -> Expression:
        """Whether a text begins with the constant `prefix`.

        orders.filter(col("user").starts_with("a"))
        """
        return _call("starts_with", self, prefix)

    def ends_with(self, suffix: str) -> Expression:
        """Whether a text ends with the constant `suffix`.

        files.filter(col("name").ends_with(".csv"))
        """
        return _call("ends_with", self, suffix)

    def contains(self, text: str) -> Expression:
        """Whether a text contains the constant `text`.

        lines.filter(col("message").contains("error"))
        """
        return _call("contains", self, text)

    def cast(self, data_type: Any) -> Expression:
        """Returns the value in another type: `data_type` is one of `Types`, or a class such as `float`.

        Numbers become other numbers, as by `int` and `float`, and integers text. A number that does not fit fails the
        job. Raises `InvalidProgramError` for what is no type of a column.

            orders.map(col("amount").cast(float) * 0.19)
        """
        kind = from_hint(data_type)
        if kind == PICKLED:
            raise InvalidProgramError(
                f"cast: {data_type!r} is no type of a column; expected a type such as Types.LONG() or float"
            )
        return Expression(Cast(self.node, from_type_information(kind)))

    def alias(self, name: str) -> Expression:
        """Returns the same expression with `name` as the name of its column in a `row`.

        Raises `InvalidProgramError` unless the name is a text that is not empty.

        orders.map(row(col("user"), (col("amount") * 2).alias("twice")))
        """
        if not isinstance(name, str) or not name:
            raise InvalidProgramError(f"alias: expected the name of a column, got {name!r}")
        return Expression(self.node, name)


class RowExpression(Computed):
    """Several expressions as the columns of a row; made by `row`."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[tuple[str, Node], ...]) -> None:
        self.columns = columns


def col(name: str) -> Expression:
    """The column `name` of the stream; the fields of tuples are `f0`, `f1` and so on."""
    if not isinstance(name, str) or not name:
        raise InvalidProgramError(f"col: expected the name of a column, got {name!r}")
    return Expression(Column(name), name)


def lit(v: Any) -> Expression:
    """The constant `v`. Beside an expression, constants need no `lit`: `col("amount") > 100`."""
    return Expression(literal_of(v))


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """The value `if_true` where `condition` is true, and `if_false` elsewhere, also where the condition is None."""
    return _call("if_then_else", condition, if_true, if_false)


def coalesce(*args: Any) -> Expression:
    """The first of the values `args` that is not None."""
    if not args:
        raise InvalidProgramError("coalesce: name at least one value")
    return _call("coalesce", *args)


def row(*columns: Expression) -> RowExpression:
    """A row of `columns`, for `map`: each has the name of its column, or that of its `alias`."""
    named: dict[str, Node] = {}
    for column in columns:
        if not isinstance(column, Expression):
            raise InvalidProgramError(f"row: expected expressions, such as col('user'), got {column!r}")
        if column.name is None:
            raise InvalidProgramError("row: a column that is computed needs a name: (col('amount') * 2).alias('twice')")
        if column.name in named:
            raise InvalidProgramError(f"row: there are two columns '{column.name}'; name one of them by alias")
        named[column.name] = column.node
    if not named:
        raise InvalidProgramError("row: name at least one column")
    return RowExpression(tuple(named.items()))


def _call(function: str, *arguments: Any) -> Expression:
    return Expression(Call(function, tuple([_node(argument) for argument in arguments])))


def _node(value: Any) -> Node:
    if isinstance(value, Expression):
        return value.node
    if isinstance(value, list | tuple):
        raise InvalidProgramError(f"{value!r:.200} is no single value; in_(...) looks for one of several")
    return literal_of(value)
