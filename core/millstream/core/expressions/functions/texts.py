"""Functions of text, as Python's methods of `str`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from millstream.core.expressions.functions.function import (
    Function,
    Signature,
    TypeMismatchError,
    any_null,
    shown,
    type_of,
)
from millstream.core.expressions.nodes import Expression, Literal
from millstream.core.expressions.types import BOOLEAN, TEXTS
from millstream.core.overriding import override
from millstream.core.records.schema import STRING, IntType, LogicalType


class _OfText(Function):
    result: ClassVar[LogicalType]

    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        for argument in arguments:
            if not isinstance(type_of(argument), TEXTS):
                raise TypeMismatchError(f"it takes text, and not {shown(type_of(argument))}")
        return Signature(tuple([STRING for _ in arguments]), self.result.with_nullable(any_null(arguments)))


class _Search(_OfText):
    """For a constant text."""

    result = BOOLEAN
    kernel: ClassVar[str]

    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        found = super().signature(arguments)
        if not isinstance(arguments[1], Literal):
            raise TypeMismatchError("it looks for a constant text, and not for the value of a column")
        return found

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return getattr(pc, self.kernel)(arguments[0], arguments[1].as_py())


class StartsWith(_Search):
    """`str.startswith`."""

    name, kernel = "starts_with", "starts_with"


class EndsWith(_Search):
    """`str.endswith`."""

    name, kernel = "ends_with", "ends_with"


class Contains(_Search):
    """Whether the text contains another."""

    name, kernel = "contains", "match_substring"


class CharLength(_OfText):
    """`len` of text: the number of its code points."""

    name = "char_length"
    result = IntType()

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return pc.utf8_length(arguments[0])


class _OfEachText(_OfText):
    """By a call of Python's method for each different text: Arrow's kernels do not map one letter to several."""

    result = STRING

    @abstractmethod
    def of_text(self, text: str) -> str:
        """The value for one text."""

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        (given,) = arguments
        if isinstance(given, pa.Scalar):
            return pa.scalar(None if not given.is_valid else self.of_text(given.as_py()), pa.string())
        different = pc.dictionary_encode(given)
        texts = pa.array([self.of_text(text) for text in different.dictionary.to_pylist()], pa.string())
        return texts.take(different.indices)


class UpperCase(_OfEachText):
    """`str.upper`."""

    name = "upper_case"

    @override
    def of_text(self, text: str) -> str:
        return text.upper()


class LowerCase(_OfEachText):
    """`str.lower`."""

    name = "lower_case"

    @override
    def of_text(self, text: str) -> str:
        return text.lower()


FUNCTIONS = (StartsWith(), EndsWith(), Contains(), CharLength(), UpperCase(), LowerCase())
