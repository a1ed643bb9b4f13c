"""What is wrong with an expression: when a job is built, or for a row."""

from __future__ import annotations

from millstream.core.errors import InvalidProgramError, MillstreamError


class ExpressionError(InvalidProgramError):
    """An expression does not fit the types of its columns."""


class UnknownColumnError(ExpressionError):
    """An expression names a column that the stream does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no column '{name}'; the columns are {', '.join(known) or '(none)'}")
        self.name = name


class EvaluationError(MillstreamError):
    """An expression has no value for a row: a division by zero, or a number that does not fit."""
