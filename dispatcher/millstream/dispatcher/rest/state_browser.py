"""Looks into snapshots for the REST API: listings, rows of a state, the difference of two; each within bounds.

Everything here blocks for files, and is called on threads of its own. What takes too long ends at its next file or
state; what would take too much memory is not begun. Nothing is unpickled: that would run code of the snapshot.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import WEB_STATE_BROWSER_MAX_SIZE, WEB_STATE_BROWSER_TIMEOUT
from millstream.core.snapshot.inspection.diff import diff_snapshots
from millstream.core.snapshot.inspection.diff_json import Shown, differences_json
from millstream.core.snapshot.inspection.listing_json import listing_json
from millstream.core.snapshot.inspection.lookup import rows_of, rows_of_key
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.core.snapshot.inspection.state_rows import StateRows, rows_json
from millstream.core.snapshot.metadata.model import StateFile
from millstream.dispatcher.rest.job_json import Json

T = TypeVar("T")
_LARGEST_RESPONSE = 8 * 1024 * 1024


class TooMuchError(MillstreamError):
    """The request is beyond the bounds of this API."""


class RowsWanted(Struct, frozen=True):
    """Which rows of which state."""

    operator: str
    state: str
    key: str | None
    offset: int
    limit: int


class StateBrowser:
    """Used from several threads at once."""

    def __init__(self, configuration: Configuration, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = configuration.get(WEB_STATE_BROWSER_TIMEOUT)
        self._most = configuration.get(WEB_STATE_BROWSER_MAX_SIZE)
        self._now = now

    def listing(self, pointer: str) -> Json:
        """The operators and states of a snapshot."""
        return listing_json(open_snapshot(pointer))

    def rows(self, pointer: str, wanted: RowsWanted) -> Json:
        """A page of the rows of a state, or those of a key."""
        deadline, opened = self._now() + self.seconds, open_snapshot(pointer)
        owner = opened.operator(wanted.operator)
        state = opened.state(owner, wanted.state)
        self._check_size(max((file.size for file in state.files), default=0), "a file of this state")
        more = wanted.limit + 1  # to see whether there is one
        if wanted.key is None:
            parts = rows_of(opened, state, more, offset=wanted.offset)
        else:
            parts = rows_of_key(opened, owner, state, wanted.key)
        shown, cut = _within(rows_json(StateRows(state, self._in_time(parts, deadline), more)), wanted.limit)
        return {
            "location": opened.location,
            "operator": owner.uid or owner.operator_id,
            "state": state.name,
            "kind": state.kind.value,
            "rows": shown,
            "offset": wanted.offset,
            "total": sum(file.rows for file in state.files),
            "truncated": cut,
        }

    def differences(self, first: str, second: str, limit: int) -> Json:
        """What differs between two snapshots, with so many entries of each state."""
        deadline = self._now() + self.seconds
        opened = open_snapshot(first), open_snapshot(second)
        for one in opened:
            self._check_size(_size_of(one), "a snapshot")

        def check(_: str) -> None:
            self._check_time(deadline)

        found = differences_json(diff_snapshots(*opened, limit, check), Shown())
        if len(json.dumps(found)) > _LARGEST_RESPONSE:
            raise TooMuchError("the difference is too large to be shown: set a lower limit")
        return {"first": opened[0].location, "second": opened[1].location, **found}

    def _in_time(self, parts: Iterable[tuple[StateFile, T]], deadline: float) -> Iterator[tuple[StateFile, T]]:
        for part in parts:
            self._check_time(deadline)
            yield part

    def _check_time(self, deadline: float) -> None:
        if self._now() > deadline:
            raise TooMuchError(f"this takes longer than web.state-browser.timeout ({self.seconds:g} s): {_INSTEAD}")

    def _check_size(self, size: int, what: str) -> None:
        if size > self._most:
            raise TooMuchError(
                f"{what} has {size / 2**20:.1f} MiB, more than web.state-browser.max-size ({self._most / 2**20:g} MiB)"
                f" allows: {_INSTEAD}"
            )


_INSTEAD = "`millstream state` looks into snapshots of any size"


def _size_of(opened: OpenedSnapshot) -> int:
    return sum(file.size for file in opened.metadata.files())


def _within(rows: list[Json], limit: int) -> tuple[list[Json], bool]:
    """Those that fit in one response, and whether there are more."""
    size = 0
    for number, row in enumerate(rows):
        size += len(json.dumps(row))
        if number >= limit or size > _LARGEST_RESPONSE:
            return rows[:number], True
    return rows, False
