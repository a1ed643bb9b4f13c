"""Turning user code into bytes, and saying what is in the way when that fails."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.logs.tracebacks import is_users
from millstream.core.pickling import to_bytes

_DEEPEST = 10


def pickled(value: Any, operator_name: str, part: Any) -> bytes:
    """Pickles `value`; when that fails, the error names the operator and what in `part` is to blame."""
    try:
        return to_bytes(value)
    except Exception as error:  # whatever a user's __reduce__ raises
        path, culprit, reason = _find_culprit(part, error)
        what = f"{path}, {_describe(culprit)}," if path else _describe(culprit)
        raise InvalidProgramError(
            f"operator '{operator_name}': {what} cannot be pickled: {' '.join(str(reason).split())}. "
            "Create such objects in the function's open() method"
        ) from (error if is_users(error) else None)


def _find_culprit(value: Any, error: Exception) -> tuple[str, Any, Exception]:
    path: list[str] = []
    for _ in range(_DEEPEST):
        for name, child in _children(value):
            failure = _failure(child)
            if failure is not None:
                path.append(name)
                value, error = child, failure
                break
        else:
            break
    return " of ".join(reversed(path)), value, error


def _failure(value: Any) -> Exception | None:
    try:
        to_bytes(value)
    except Exception as error:  # as above
        return error
    return None


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        yield "the function", value.func
        yield from ((f"argument {i}", argument) for i, argument in enumerate(value.args))
        yield from ((f"argument '{name}'", argument) for name, argument in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield "its object", value.__self__
    elif isinstance(value, types.FunctionType):
        captured = inspect.getclosurevars(value)
        yield from ((f"the variable '{name}'", child) for name, child in captured.nonlocals.items())
        yield from ((f"the global variable '{name}'", child) for name, child in captured.globals.items())
        yield from ((f"default {i}", child) for i, child in enumerate(value.__defaults__ or ()))
    elif isinstance(value, dict):
        yield from ((f"the item {key!r}", child) for key, child in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"the element {i}", child) for i, child in enumerate(value))
    elif not isinstance(value, type | types.ModuleType) and not _says_itself(value):
        yield from ((f"the attribute '{name}'", child) for name, child in getattr(value, "__dict__", {}).items())


def _says_itself(value: Any) -> bool:
    """Whether its class has a way of its own to be pickled, or to refuse: then its attributes are not to blame."""
    return getattr(type(value), "__reduce__", None) is not object.__reduce__


def _describe(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return f"'{name}'"
    return f"an object of type '{type(value).__module__}.{type(value).__qualname__}'"
