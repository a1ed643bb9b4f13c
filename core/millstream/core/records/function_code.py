"""Analyses the bytecode of small user functions, such as `lambda pair: pair[0]`.

One that only picks a part of its argument is replaced by a getter of the standard library, which a loop in C calls
without entering the interpreter, and one that returns its argument is not called at all. One that only calculates
returns immutable values for immutable arguments, so that its results need no check. For any
other code nothing is assumed: a false negative costs time, a false positive would share mutable values.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from operator import attrgetter, itemgetter
from types import FunctionType, MethodType
from typing import Any

from millstream.core.records.types import BasicType, TupleType, TypeInformation

_ALWAYS = frozenset({"RESUME", "NOP", "CACHE"})
_CALCULATING = frozenset(
    {
        "BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "BUILD_SLICE", "BUILD_STRING", "BUILD_TUPLE", "COMPARE_OP",
        "CONTAINS_OP", "COPY", "FORMAT_VALUE", "IS_OP", "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP",
        "LOAD_CONST", "LOAD_FAST", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_NONE",
        "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "POP_TOP",
        "RETURN_CONST", "RETURN_VALUE", "STORE_FAST", "SWAP", "UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT",
        "UNARY_POSITIVE", "UNPACK_SEQUENCE",
    }
)  # fmt: skip
"""Instructions that create only numbers, text and tuples of them, without calls, names or side effects."""


def itself(argument: Any) -> Any:
    """Replaces a function that returns its first argument."""
    return argument


def getter(function: Any) -> Callable[[Any], Any] | None:
    """A getter that gives what the function gives for its first argument: `itself`, or one of the standard library."""
    if isinstance(function, itemgetter | attrgetter):
        return function
    method = isinstance(function, MethodType)
    plain = function.__func__ if method else function
    if not isinstance(plain, FunctionType):
        return None
    code = plain.__code__
    if code.co_argcount <= method:
        return None
    argument = code.co_varnames[method]
    match [(step.opname, step.argval) for step in dis.get_instructions(code) if step.opname not in _ALWAYS]:
        case [("LOAD_FAST", name), ("RETURN_VALUE", _)]:
            return itself if name == argument else None
        case [("LOAD_FAST", name), ("LOAD_CONST", index), ("BINARY_SUBSCR", _), ("RETURN_VALUE", _)]:
            return itemgetter(index) if name == argument else None
        case [("LOAD_FAST", name), ("LOAD_ATTR", attribute), ("RETURN_VALUE", _)]:
            return attrgetter(attribute) if name == argument else None
    return None


def picked(part: Callable[[Any], Any] | None, rows: list[Any]) -> list[Any] | None:
    """What a getter gives for each row, only to be read: it may be `rows`.

    None: there is no getter, or it fails: then the function shows for which row.
    """
    if part is None or part is itself:
        return None if part is None else rows
    try:
        parts = list(map(part, rows))
    except Exception:
        return None
    return parts if len(parts) == len(rows) else None  # map takes a StopIteration for its own end


def only_calculates(function: Any) -> bool:
    """Whether its results are immutable if its arguments are immutable and of built-in classes."""
    if not isinstance(function, FunctionType) or function.__defaults__ or function.__kwdefaults__:
        return False
    if function.__code__.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        return False
    return all(step.opname in _ALWAYS or step.opname in _CALCULATING for step in dis.get_instructions(function))


def is_plain_type(kind: TypeInformation) -> bool:
    """Whether such records have no parts that can be changed, and are of no class of the user's."""
    match kind:
        case BasicType():
            return True
        case TupleType(inner):
            return all(map(is_plain_type, inner))
    return False
