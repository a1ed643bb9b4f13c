"""The enumerator of a file source that continues looking for new files.

A file is read once, as it is when it is found: what is added to it later is not, so files should be written elsewhere,
or under a hidden name, and then moved to where they are looked for. One without a byte is not a file yet. Which paths
were found is part of the checkpoint, for as long as the job lives, as in Flink.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from millstream.datastream.connectors.base import SplitEnumerator, SplitEnumeratorContext
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import FileSplit
from millstream.datastream.connectors.split_queue import GivenSplits

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MonitoringState:
    """The splits not handed out, and the paths of all files that were ever found."""

    pending: list[FileSplit]
    found: list[str]


class MonitoringEnumerator(SplitEnumerator[FileSplit]):
    """`list_files` finds all files, and `cut` makes the splits of one, off the enumerators' thread."""

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        list_files: Callable[[], Iterable[FoundFile]],
        cut: Callable[[FoundFile], list[FileSplit]],
        interval: float,
        state: MonitoringState | None = None,
    ) -> None:
        self._context = context
        self._list_files = list_files
        self._cut = cut
        self._interval = interval
        self._pending = deque([] if state is None else state.pending)
        self._known = set([] if state is None else state.found)
        self._waiting: dict[int, None] = {}  # subtasks, in the order of their requests
        self._given = GivenSplits({})
        self._reported = ""

    def take_over(self, assigned: dict[int, list[FileSplit]]) -> bool:
        """Removes the splits that are assigned to readers; files that have grown are not read again."""
        self._given = GivenSplits(assigned)
        self._pending = deque(self._given.left_of(self._pending))
        return True

    def start(self) -> None:
        """Lists the files at once, and then at the configured interval."""
        self._context.call_async(self._look, self._looked)

    def _look(self) -> list[tuple[str, list[FileSplit]]]:
        """Returns the new files; the known files do not change meanwhile."""
        new = [file for file in self._list_files() if file.size and file.path not in self._known]
        return [(file.path, self._cut(file)) for file in new]

    def _looked(self, new: list[tuple[str, list[FileSplit]]] | None, error: BaseException | None) -> None:
        if isinstance(error, ConnectorError) and not isinstance(error, MalformedInputError):
            if str(error) != self._reported:  # a folder that is not there yet, or not within reach for a moment
                self._reported = str(error)
                log.warning("%s; it is looked for again every %g s", error, self._interval)
        elif error is not None:
            raise error
        for path, splits in new or ():
            self._known.add(path)
            self._pending.extend(self._given.left_of(splits))
        self._serve()
        self._context.call_async(self._look, self._looked, self._interval)

    def _serve(self) -> None:
        while self._pending and self._waiting:
            subtask = next(iter(self._waiting))
            del self._waiting[subtask]
            if subtask in self._context.registered_readers():
                self._context.assign_splits([self._pending.popleft()], subtask)

    def add_reader(self, subtask: int) -> None:
        """A new reader requests a split again: the request of the one before it is dropped."""
        self._waiting.pop(subtask, None)

    def handle_split_request(self, subtask: int, host: str) -> None:
        """Assigns the next split, now or when there is one."""
        self._waiting[subtask] = None
        self._serve()

    def add_splits_back(self, splits: list[FileSplit], subtask: int) -> None:
        """First in the queue, for the next reader."""
        self._waiting.pop(subtask, None)
        self._pending.extendleft(reversed(splits))
        self._serve()

    def unassigned_splits(self) -> int:
        """Those of the files that were found so far."""
        return len(self._pending)

    def snapshot_state(self, checkpoint_id: int) -> MonitoringState:
        """What a new one needs to find every file once."""
        return MonitoringState(list(self._pending), sorted(self._known))
