"""Pickling by value: lambdas, local functions, and everything in the user's main script.

If a class can be imported, unpickled instances belong to its current definition. The same holds for classes of the main
script, which are sent with the program: instances in the state of an earlier submission become instances of the
program's class of that name. Otherwise no key of such a class would equal the stored one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import pickle
import typing
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from millstream.core.errors import UnloadableProgramError

_MSGSPEC_CACHE = "__msgspec_cache__"

_program: WeakValueDictionary[str, type] = WeakValueDictionary()
_complete: WeakSet[type] = WeakSet()
_reading_state: ContextVar[bool] = ContextVar("reading_state", default=False)


def to_bytes(value: Any) -> bytes:
    """Pickles by value what the cluster cannot import: lambdas, local functions, everything in the main script."""
    file = io.BytesIO()
    _pickler_class()(file).dump(value)
    return file.getvalue()


def load_program(data: bytes, what: str) -> Any:
    """Unpickles a part of the program. A missing module or class raises an error that a restart cannot resolve."""
    try:
        return pickle.loads(data)
    except ImportError as error:
        raise UnloadableProgramError(
            f"{what} cannot be loaded: {error}; it is missing in the job's environment: add it to the dependencies of "
            "the wheel or to -pyreq, or send it with -pyfs"
        ) from error
    except (AttributeError, pickle.UnpicklingError, EOFError) as error:
        raise UnloadableProgramError(
            f"{what} cannot be loaded: {error}; the job's modules differ from those that it was built with"
        ) from error


@contextlib.contextmanager
def reading_state() -> Iterator[None]:
    """While active, unpickled data may come from another submission of the program."""
    token = _reading_state.set(True)
    try:
        yield
    finally:
        _reading_state.reset(token)


@functools.cache
def _pickler_class() -> Any:
    """The pickler of cloudpickle, with four differences.

    It omits msgspec's cache in a dataclass, which cannot be pickled; a memoryview remains one, where cloudpickle
    converts it to bytes; the marker of a field without a default remains the object that libraries compare it with; and
    the annotations of a dataclass are resolved, not text (`from __future__ import annotations`), since the main script,
    in which their names are defined, is not sent.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is not typed
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is memoryview:
                return view_of, (obj.tobytes(), obj.format, obj.shape, obj.readonly)
            if obj is dataclasses.MISSING:
                return "MISSING"
            reduced = super().reducer_override(obj)
            if not isinstance(obj, type) or not isinstance(reduced, tuple) or len(reduced) != 6:
                return reduced  # not a class that is pickled by value
            make, arguments, state, *_ = reduced
            state[0].pop(_MSGSPEC_CACHE, None)
            if dataclasses.is_dataclass(obj) and (resolved := _resolved_annotations(obj)):
                state[0]["__annotations__"] = resolved
            if obj.__module__ != "__main__" or "<locals>" in obj.__qualname__:
                return reduced
            _complete.add(obj)
            return find_class, (obj.__qualname__, make, arguments), state, None, None, complete_class

    return Pickler


def _resolved_annotations(cls: type) -> dict[str, Any] | None:
    """Resolves the class's own annotations; None if they contain no names, or a name is not defined."""
    own: dict[str, Any] = vars(cls).get("__annotations__", {})
    if not any(map(_has_names, own.values())):
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # annotations may raise any error; code that needs the types reports it
        return None
    return {name: hints[name] for name in own}


def _has_names(hint: Any) -> bool:
    return isinstance(hint, str | typing.ForwardRef) or any(map(_has_names, typing.get_args(hint)))


def view_of(data: bytes, format: Any, shape: tuple[int, ...], readonly: bool) -> memoryview:
    """Restores a memoryview, over a copy of its content."""
    return memoryview(data if readonly else bytearray(data)).cast(format, shape)


def find_class(name: str, make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """Returns the class of the main script that a pickle refers to; in state, the program's class of that name."""
    from cloudpickle import cloudpickle

    tracked = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID  # noqa: SLF001  # cloudpickle's own table of what came before
    found: type | None = tracked.get(arguments[-2])
    if _reading_state.get():
        found = _program.get(name, found)
        return make(*arguments) if found is None else found
    _program[name] = found = make(*arguments) if found is None else found
    return found


def complete_class(cls: type, state: Any) -> type:
    """Sets the attributes of a new class; the program's own class is not changed."""
    from cloudpickle import cloudpickle

    if cls not in _complete:
        _complete.add(cls)
        cloudpickle._class_setstate(cls, state)  # noqa: SLF001  # the default, which this stands in for
    return cls
