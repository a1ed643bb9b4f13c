"""How windows are kept as namespaces of keyed state: as plain tuples, which are quick to make and to find.

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
    """All windows of one kind."""

    type: TypeInformation
    name_of: Callable[[Any], Any]
    """The namespace of a window."""
    window_of: Callable[[Any], Any]
    """The window of a namespace, which may come from a snapshot."""


def _same(window: Any) -> Any:
    return window


_TIME = WindowSpace(
    TupleType((LONG, LONG), ("start", "end")), lambda window: (window.start, window.end), lambda name: TimeWindow(*name)
)
_COUNT = WindowSpace(TupleType((LONG,), ("id",)), lambda window: (window.id,), lambda name: CountWindow(*name))
_GLOBAL = WindowSpace(LONG, lambda window: 0, lambda name: GlobalWindow.get())
_OTHER = WindowSpace(PICKLED, _same, _same)


def window_space(assigner: WindowAssigner[Any, Any]) -> WindowSpace:
    """Of the windows that an assigner makes, by its serializer."""
    match assigner.get_window_serializer():
        case TimeWindowSerializer():
            return _TIME
        case CountWindowSerializer():
            return _COUNT
        case GlobalWindowSerializer():
            return _GLOBAL
    return _OTHER
