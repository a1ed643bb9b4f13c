"""Analyses the bytecode of small user functions, such as `lambda pair: pair[0]`.

One that only picks a part of its argument is replaced by a getter of the standard library, which a loop in C calls
without entering the interpreter, and one that returns its argument is not called at all. One that only calculates
returns immutable values for immutable arguments, so that its results need no check. For any
other code nothing is assumed: a false negative costs time, a false positive would share mutable values.
"""

from __future__ import annotations

import dis
import logging
import sys
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from operator import attrgetter, itemgetter
from types import FunctionType, MethodType
from typing import Any

from millstream.core.records.instructions import CALCULATING, IGNORED, is_known

log = logging.getLogger(__name__)


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
    match _instructions(plain):
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
    return all(name in CALCULATING for name, _ in _instructions(function))


def _instructions(function: FunctionType) -> list[tuple[str, Any]]:
    """Its instructions with their arguments, without those that do nothing."""
    found = [(step.opname, step.argval) for step in dis.get_instructions(function) if step.opname not in IGNORED]
    if unknown := sorted({name for name, _ in found if not is_known(name)}):
        _warn(unknown)
    return found


_warned: list[str] = []


def _warn(unknown: list[str]) -> None:
    """Logs once that functions may be slower than they need to be."""
    if not _warned:
        _warned.extend(unknown)
        log.warning(
            "Python %d.%d has bytecode instructions that are not known (%s): small functions with them are slower than "
            "they need to be",
            *sys.version_info[:2],
            ", ".join(unknown),
        )
