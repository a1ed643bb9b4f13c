"""Windows as namespaces of keyed state: plain tuples, which are cheap to create and to look up.

In a snapshot, a time window is a struct of its start and its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from millstream.core.records.types import LONG, PICKLED, TupleType, TypeInformation
from millstream.datastream.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    WindowAssigner,
)


class WindowSpace(Struct, frozen=True):
    """The namespaces for one kind of windows."""

    type: TypeInformation
    name_of: Callable[[Any], Any]
    """Returns the namespace of a window."""
    window_of: Callable[[Any], Any]
    """Returns the window of a namespace, which may come from a snapshot."""


def _same(window: Any) -> Any:
    return window


_TIME = WindowSpace(
    TupleType((LONG, LONG), ("start", "end")), lambda window: (window.start, window.end), lambda name: TimeWindow(*name)
)
_COUNT = WindowSpace(TupleType((LONG,), ("id",)), lambda window: (window.id,), lambda name: CountWindow(*name))
_GLOBAL = WindowSpace(LONG, lambda window: 0, lambda name: GlobalWindow.get())
_OTHER = WindowSpace(PICKLED, _same, _same)


def window_space(assigner: WindowAssigner[Any, Any]) -> WindowSpace:
    """The namespaces for the windows of an assigner, by its serializer."""
    match assigner.get_window_serializer():
        case TimeWindowSerializer():
            return _TIME
        case CountWindowSerializer():
            return _COUNT
        case GlobalWindowSerializer():
            return _GLOBAL
    return _OTHER
