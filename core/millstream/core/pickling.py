"""Pickling by value: lambdas, local functions, and everything in the user's main script.

Where a class can be imported, whatever is unpickled is of the class as it is now. The same holds for classes of the
main script, which come along with the program: instances in the state of an earlier submission become instances of the
program's class of that name. Otherwise no key of such a class would equal the one that was stored.
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
    """Unpickles a part of the program. What is missing for it where it runs will be missing next time too."""
    try:
        return pickle.loads(data)
    except ImportError as error:
        raise UnloadableProgramError(
            f"{what} cannot be loaded: {error}; the job's environment lacks it: name it among the dependencies of the "
            "wheel or in -pyreq, or send it along with -pyfs"
        ) from error
    except (AttributeError, pickle.UnpicklingError, EOFError) as error:
        raise UnloadableProgramError(
            f"{what} cannot be loaded: {error}; the modules that the job finds are not those that it was built with"
        ) from error


@contextlib.contextmanager
def reading_state() -> Iterator[None]:
    """What is unpickled meanwhile may come from another submission of the program."""
    token = _reading_state.set(True)
    try:
        yield
    finally:
        _reading_state.reset(token)


@functools.cache
def _pickler_class() -> Any:
    """The pickler of cloudpickle, with four differences.

    It leaves out what msgspec remembers in a dataclass, which cannot be pickled; a memoryview stays one, where
    cloudpickle makes bytes of it; what says that a field has no default stays the one object that libraries compare it
    with; and the annotations of a dataclass are what they mean, not text
    (`from __future__ import annotations`): the main script, in which their names are found, does not come along.
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
                return reduced  # no class that is pickled by value
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
    """What the class's own annotations mean; None when they need no looking up, or a name in them is not found."""
    own: dict[str, Any] = vars(cls).get("__annotations__", {})
    if not any(map(_has_names, own.values())):
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # what an annotation may raise; whoever needs the types says so
        return None
    return {name: hints[name] for name in own}


def _has_names(hint: Any) -> bool:
    return isinstance(hint, str | typing.ForwardRef) or any(map(_has_names, typing.get_args(hint)))


def view_of(data: bytes, format: Any, shape: tuple[int, ...], readonly: bool) -> memoryview:
    """A memoryview again, over a copy of what it showed."""
    return memoryview(data if readonly else bytearray(data)).cast(format, shape)


def find_class(name: str, make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """The class of the main script that a pickle means; in state, the program's one of that name if there is one."""
    from cloudpickle import cloudpickle

    tracked = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID  # noqa: SLF001  # cloudpickle's own table of what came before
    found: type | None = tracked.get(arguments[-2])
    if _reading_state.get():
        found = _program.get(name, found)
        return make(*arguments) if found is None else found
    _program[name] = found = make(*arguments) if found is None else found
    return found


def complete_class(cls: type, state: Any) -> type:
    """Gives a new class what belongs to it; the program's own keeps what it has."""
    from cloudpickle import cloudpickle

    if cls not in _complete:
        _complete.add(cls)
        cloudpickle._class_setstate(cls, state)  # noqa: SLF001  # the default, which this stands in for
    return cls
