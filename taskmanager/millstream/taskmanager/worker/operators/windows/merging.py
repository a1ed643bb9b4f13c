"""Windows that merge, such as sessions: which windows exist for a key, and under which name each keeps its state.

When windows merge, the state of one of them becomes that of the merged window, without being moved, and the state of
the others is merged into it. So a window may keep its state under the name of another for its whole life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.core.records.types import PICKLED, ListType, TupleType, TypeInformation
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream.window import MergingWindowAssigner
from millstream.taskmanager.worker.operators.windows.spaces import WindowSpace
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.table import MISSING

NAME = "window-merging-set"
Merge = Callable[[Any, list[Any], Any, list[Any]], None]
"""The merged window, its parts, the one whose state it has, and those whose state is merged into it."""


class MergingWindows:
    """The windows of the current key, after `load` was called; `store` saves them."""

    def __init__(
        self, assigner: MergingWindowAssigner[Any, Any], space: WindowSpace, backend: KeyedStateBackend
    ) -> None:
        self._assigner = assigner
        self._space = space
        self._table = backend.table(NAME, _pairs(space.type), StateKind.VALUE)
        self._key = backend.get_current_key
        self._state_of: dict[Any, Any] = {}
        self._stored: dict[Any, Any] = {}

    def load(self) -> None:
        """Loads the windows of the current key."""
        pairs = self._table.get(self._key())
        window_of = self._space.window_of
        self._state_of = {} if pairs is MISSING else {window_of(window): state for window, state in pairs}
        self._stored = dict(self._state_of)

    def store(self) -> None:
        """Saves the windows of the current key, if they have changed."""
        if self._state_of == self._stored:
            return
        name_of = self._space.name_of
        if self._state_of:
            self._table.put(self._key(), [(name_of(window), state) for window, state in self._state_of.items()])
        else:
            self._table.remove(self._key())

    def state_of(self, window: Any) -> Any | None:
        """The name under which the state of a window is kept; None if there is no such window."""
        return self._state_of.get(window)

    def retire(self, window: Any) -> None:
        """Removes a window."""
        self._state_of.pop(window, None)

    def add(self, new: Any, merge: Merge) -> Any:
        """Adds a window; returns the one that it was merged into, possibly itself."""
        groups: list[tuple[Any, list[Any]]] = []
        self._assigner.merge_windows([*self._state_of, new], _Collecting(groups))
        result, merged_new = new, False
        for merged, parts in groups:
            if new in parts:
                result, merged_new = merged, True
            known = [window for window in parts if window in self._state_of]
            if not known:
                continue
            kept = self._state_of[known[0]]
            others = [self._state_of[window] for window in known[1:]]
            for window in known:
                del self._state_of[window]
            self._state_of[merged] = kept
            if known != [merged]:
                merge(merged, known, kept, others)
        if not merged_new or result not in self._state_of:
            self._state_of.setdefault(result, self._space.name_of(result))
        return result


class _Collecting(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self, groups: list[tuple[Any, list[Any]]]) -> None:
        self._groups = groups

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self._groups.append((merge_result, list(to_be_merged)))


def _pairs(window: TypeInformation) -> TypeInformation:
    return PICKLED if window == PICKLED else ListType(TupleType((window, window), ("window", "state")))
