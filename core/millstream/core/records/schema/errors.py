"""What is wrong with a type, and where in its text."""

from __future__ import annotations

from millstream.core.errors import MillstreamError

_SHOWN = 40  # characters of the text on either side of what is wrong


class InvalidTypeError(MillstreamError):
    """A type that does not exist: a length, precision or name out of bounds, or a source that no type stands for."""


class TypeSyntaxError(InvalidTypeError):
    """A text that is not a type. `position` is the offset in the text of what is wrong, from 0, as Flink counts it."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


def syntax_error(cause: str, text: str, position: int) -> TypeSyntaxError:
    """The error for what is wrong at this offset of the text."""
    message = f"Could not parse type at position {position}: {cause}: {_marked(text, position)}"
    return TypeSyntaxError(message, position)


def _marked(text: str, position: int) -> str:
    before, after = text[:position], text[position:]
    before = f"…{before[-_SHOWN:]}" if len(before) > _SHOWN else before
    after = f"{after[:_SHOWN]}…" if len(after) > _SHOWN else after
    return " ".join(f"{before}→{after}".split())
