"""What a function is: which arguments it takes, the type of its values, and how they are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from millstream.core.expressions.errors import ExpressionError
from millstream.core.overriding import override
from millstream.core.records.schema import LogicalType, summary_string

if TYPE_CHECKING:
    from millstream.core.expressions.nodes import Expression


class TypeMismatchError(ExpressionError):
    """A function does not take arguments of these types; the message goes on after the expression."""


class Signature(Struct, frozen=True):
    """The types to which the arguments of a call are converted, and that of its values."""

    arguments: tuple[LogicalType, ...]
    result: LogicalType


class Function(ABC):
    """A function over columns. Its values depend on its arguments only."""

    name: ClassVar[str]
    symbol: ClassVar[str] = ""
    """Its operator in Python, if it has one."""
    is_conditional: ClassVar[bool] = False
    """Whether it needs its later arguments for some rows only; see `needed`."""

    @abstractmethod
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        """Returns the types of a call with these resolved arguments; raises `TypeMismatchError` if it takes no such."""

    @abstractmethod
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        """Returns the values for Arrow arrays of the types of the signature, and scalars for constants.

        An `ArrowInvalid` is an error of a row. Where it is conditional, arguments are null where they were not needed.
        """

    def needed(self, earlier: Sequence[Any]) -> Any:
        """For which rows the next argument is needed, given the earlier ones: an array of truth values without null.

        Called if it is conditional, where evaluating that argument for all rows has failed.
        """
        raise NotImplementedError


class KernelFunction(Function):
    """A function that is one of Arrow's kernels."""

    kernel: ClassVar[str]

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return getattr(pc, self.kernel)(*arguments)


def type_of(expression: Expression) -> LogicalType:
    """The type of a resolved expression."""
    assert expression.type is not None, "it is resolved"
    return expression.type


def any_null(arguments: Sequence[Expression]) -> bool:
    """Whether a function whose value is null for any null argument may have a null value."""
    return any(type_of(argument).nullable for argument in arguments)


def shown(type: LogicalType) -> str:
    """A type for messages, whether or not it may be null."""
    return summary_string(type.with_nullable(True))
