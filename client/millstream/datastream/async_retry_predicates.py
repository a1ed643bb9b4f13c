"""Predicates for `AsyncRetryStrategy`, with PyFlink's names."""

from __future__ import annotations

from typing import Any


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Whether there are no results."""
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether anything was raised."""
    return error is not None


def exception_type_predicate(
    error: BaseException, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Whether what was raised is of this type; bind the type with `functools.partial`."""
    return isinstance(error, expected_error_type)
