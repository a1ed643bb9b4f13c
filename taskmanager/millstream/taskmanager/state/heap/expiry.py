"""The time-to-live of one state on the heap: when entries expire, and which to look at next to clean up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from millstream.core.clock import Clock
from millstream.datastream.state_ttl import StateTtlConfig, StateVisibility, UpdateType


class Expiry:
    """An entry has expired from its deadline on."""

    def __init__(self, config: StateTtlConfig, clock: Clock) -> None:
        self.ttl_ms = config.ttl_ms
        self.reads_extend = config.update_type is UpdateType.OnReadAndWrite
        self.answers_expired = config.state_visibility is StateVisibility.ReturnExpiredIfNotCleanedUp
        self.in_snapshots = config.cleanup_strategies.in_full_snapshot()
        incremental = config.cleanup_strategies.get_incremental_cleanup_strategy()
        self._size = 0 if incremental is None else incremental.cleanup_size
        self.every_record = incremental is not None and incremental.every_record
        self._round: Iterator[Any] = iter(())
        self.now = clock.now_ms

    def next_to_clean(self, entries: Iterable[Any]) -> list[Any]:
        """A few entries; all of them in turn over many calls. They may be gone by now."""
        if not self._size:
            return []
        found = list(islice(self._round, self._size))
        if not found:
            self._round = iter(list(entries))
            found = list(islice(self._round, self._size))
        return found
