"""The enumerator of a file source that lists its files once, when the source starts.

After a restore nothing is listed again, whatever paths the program has by then. So the paths are part of the state, and
a program with others is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from millstream.core.overriding import override
from millstream.datastream.connectors.base import SplitEnumeratorContext
from millstream.datastream.connectors.errors import ChangedInputError
from millstream.datastream.connectors.file_system.monitoring import MonitoringState
from millstream.datastream.connectors.file_system.splits import FileSplit
from millstream.datastream.connectors.split_queue import DiscoveringEnumerator


@dataclass(frozen=True, slots=True)
class ListedState:
    """The splits not handed out, and the paths where they were found."""

    paths: tuple[str, ...]
    pending: tuple[FileSplit, ...]


class ListingEnumerator(DiscoveringEnumerator[FileSplit]):
    """Its state is a `ListedState`, or None while the files are not listed.

    That of earlier versions, and of bootstrapped snapshots, is a list of splits, or the state of a source that
    monitored its files.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        paths: tuple[str, ...],
        discover: Callable[[], list[FileSplit]],
        state: Any = None,
    ) -> None:
        super().__init__(context, discover, _pending(state, paths))
        self._paths = paths

    @override
    def snapshot_state(self, checkpoint_id: int) -> Any:
        pending = super().snapshot_state(checkpoint_id)
        return None if pending is None else ListedState(self._paths, tuple(pending))


def _pending(state: Any, paths: tuple[str, ...]) -> Collection[FileSplit] | None:
    """The splits of a state that are not handed out. Raises ChangedInputError."""
    if not isinstance(state, ListedState):
        return state.pending if isinstance(state, MonitoringState) else state
    if set(state.paths) != set(paths):
        raise ChangedInputError(f"a source of {', '.join(state.paths)}", ", ".join(paths))
    return state.pending
