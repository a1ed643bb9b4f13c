"""The functions that expressions may call."""

from __future__ import annotations

from millstream.core.expressions.errors import ExpressionError
from millstream.core.expressions.functions.function import Function

_FUNCTIONS: dict[str, Function] = {}


def register(function: Function) -> None:
    """Makes a function known by its name; raises `ExpressionError` if another one has it."""
    known = _FUNCTIONS.setdefault(function.name, function)
    if type(known).__qualname__ != type(function).__qualname__:
        raise ExpressionError(
            f"there is a function '{function.name}' already, of the class {type(known).__qualname__}"
        )


def function_named(name: str) -> Function:
    """Returns the function of this name; raises `ExpressionError` if there is none."""
    found = _FUNCTIONS.get(name)
    if found is None:
        raise ExpressionError(f"there is no function '{name}'")
    return found
