"""What is known about a user's function before it runs: whether it fits its operator, and its result type."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import typing
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Union

from millstream.core.errors import InvalidProgramError
from millstream.core.records.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.functions import Function, OutputTag, as_callable

_ITERABLES = (
    list, set, frozenset, collections.deque, collections.abc.Iterable, collections.abc.Iterator,
    collections.abc.Generator, collections.abc.Sequence, collections.abc.Collection, collections.abc.Set,
)  # fmt: skip


def checked_callable(operator: str, function: Any, method: str, arguments: int) -> Callable[..., Any]:
    """What the operator will call: the rich function's method, or the callable itself.

    Raises when there is nothing to call, when it cannot be called with this many arguments, and for the class of a
    function in place of an object, which would be called as a constructor.
    """
    if isinstance(function, type) and issubclass(function, Function):
        raise instance_needed(operator, function)
    try:
        target = as_callable(function, method)
    except TypeError as error:
        raise InvalidProgramError(f"{operator}: {error}") from None
    refuse_async(operator, target)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some built-in functions have none
        return target
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        count = "one argument" if arguments == 1 else f"{arguments} arguments"
        raise InvalidProgramError(
            f"{operator}: '{_name(target)}{signature}' cannot be called with {count}, as it will be"
        ) from None
    return target


def instance_needed(operator: str, given: type) -> InvalidProgramError:
    """What to raise when a class was given in place of one of its objects."""
    name = given.__qualname__
    return InvalidProgramError(f"{operator}: '{name}' is a class; pass an object of it, as in {name}()")


def refuse_async(operator: str, target: Callable[..., Any]) -> None:
    """An async function returns a coroutine, which no operator but that of `AsyncDataStream` awaits."""
    for function in (target, _annotated(target)):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidProgramError(
                f"{operator}: '{_name(target)}' is an async function, and {operator} does not await its results. Write "
                "an AsyncFunction and apply it with AsyncDataStream.unordered_wait(stream, function, timeout), or "
                "ordered_wait"
            )


def refuse_generator(operator: str, target: Callable[..., Any], instead: str) -> None:
    """A generator where one result is wanted is a mistake that would only show as odd records."""
    if inspect.isgeneratorfunction(target):
        raise InvalidProgramError(f"{operator}: '{_name(target)}' is a generator function; {instead}")


def declared_type(hint: Any) -> TypeInformation:
    """The type that a user's annotation, `Types.…` or dataclass stands for."""
    try:
        return from_hint(hint)
    except TypeError:  # annotations that cannot be hashed
        return PICKLED


def result_type(target: Callable[..., Any], output_type: Any) -> TypeInformation:
    """The type of the results of a function: as declared, else as annotated, else unknown."""
    if output_type is not None:
        return declared_type(output_type)
    if isinstance(target, type):
        return declared_type(target)
    return declared_type(_return_hint(target))


def element_type(target: Callable[..., Any], output_type: Any) -> TypeInformation:
    """The type of one element of what a function returns or yields."""
    if output_type is not None:
        return declared_type(output_type)
    return declared_type(_element_hint(_return_hint(target)))


def batch_format_of(function: Any) -> str:
    """`pandas` when the first parameter is annotated as a pandas data frame, else `arrow`. Imports neither."""
    target = _annotated(function)
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return "arrow"
    if not parameters:
        return "arrow"
    hint = _hints(target).get(parameters[0].name, parameters[0].annotation)
    if isinstance(hint, str):
        module, _, name = hint.strip("'\"").rpartition(".")
        return "pandas" if name == "DataFrame" and module in ("", "pd", "pandas") else "arrow"
    is_frame = getattr(hint, "__name__", "") == "DataFrame" and getattr(hint, "__module__", "").startswith("pandas")
    return "pandas" if is_frame else "arrow"


def _return_hint(target: Any) -> Any:
    return _hints(_annotated(target)).get("return", Any)


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target)
    except Exception:  # a name that only type checkers see, or no annotations at all
        return {}


def _annotated(target: Any) -> Any:
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isroutine(target) or isinstance(target, type):
        return target
    return getattr(target, "__call__", target)  # noqa: B004  # its annotations are wanted, not whether it is callable


def _element_hint(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        return _element_hint(members[0]) if len(members) == 1 else Any
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _main_output(arguments[0])
    if origin in _ITERABLES and arguments:
        return _main_output(arguments[0])
    return Any


def _main_output(hint: Any) -> Any:
    """Without the alternatives that are `(tag, value)` of a side output."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)
    main = [member for member in members if not _is_side_output(member)]
    return Union[tuple(main)] if main else Any  # noqa: UP007  # built at run time


def _is_side_output(hint: Any) -> bool:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is not tuple or not arguments:
        return False
    return (typing.get_origin(arguments[0]) or arguments[0]) is OutputTag


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", type(target).__qualname__))
