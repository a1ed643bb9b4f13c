"""Creates small snapshots of given states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.snapshot import (
    FileFormat,
    FileSystemStorage,
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateKind,
    StateSnapshot,
    StateTypes,
    TtlSettings,
    broadcast_table,
    element_table,
    list_table,
    map_table,
    timer_table,
    value_table,
    write_state,
)
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot

JOB = JobId("abcdef0123")


@dataclass
class Maker:
    """A snapshot being created; keyed state is divided into files of about `rows_per_file`."""

    root: Path | str
    max_parallelism: int = 128
    format: FileFormat = FileFormat.PARQUET
    rows_per_file: int = 1 << 20
    kind: SnapshotKind = SnapshotKind.SAVEPOINT
    operators: list[OperatorSnapshot] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage = FileSystemStorage(str(self.root), JOB)
        self.location = self.storage.savepoint_location()

    def values(self, name: str, entries: dict[Any, Any], types: StateTypes, **more: Any) -> StateSnapshot:
        table = value_table(entries.keys(), entries.values(), types, self.max_parallelism, **more)
        return self._written(name, StateKind.VALUE, types, table)

    def expiring(self, name: str, entries: dict[Any, Any], types: StateTypes, expires_at: list[int]) -> StateSnapshot:
        state = self.values(name, entries, types, expires_at=expires_at)
        return replace(state, ttl=TtlSettings(3_600_000))

    def lists(self, name: str, entries: dict[Any, list[Any]], types: StateTypes, **more: Any) -> StateSnapshot:
        table = list_table(entries.keys(), entries.values(), types, self.max_parallelism, **more)
        return self._written(name, StateKind.LIST, types, table)

    def maps(self, name: str, entries: dict[Any, dict[Any, Any]], types: StateTypes) -> StateSnapshot:
        table = map_table(entries.keys(), entries.values(), types, self.max_parallelism)
        return self._written(name, StateKind.MAP, types, table)

    def timers(self, name: str, entries: Iterable[tuple[Any, int, str]], types: StateTypes) -> StateSnapshot:
        keys, times, domains = zip(*entries, strict=True)
        table = timer_table(keys, times, domains, types, self.max_parallelism)
        return self._written(name, StateKind.TIMERS, types, table)

    def elements(
        self, name: str, by_subtask: list[list[Any]], types: StateTypes, kind: StateKind = StateKind.OPERATOR_LIST
    ) -> StateSnapshot:
        tables = [element_table(elements, types) for elements in by_subtask]
        return self._written(name, kind, types, *tables)

    def broadcast(self, name: str, entries: dict[Any, Any], types: StateTypes, copies: int = 1) -> StateSnapshot:
        return self._written(name, StateKind.BROADCAST, types, *([broadcast_table(entries, types)] * copies))

    def _written(self, name: str, kind: StateKind, types: StateTypes, *tables: Any) -> StateSnapshot:
        files = [
            file
            for subtask, table in enumerate(tables)
            for file in write_state(
                self.storage, self.location, f"operator-{len(self.operators)}", name, subtask, table, self.format,
                rows_per_file=self.rows_per_file,
            )
        ]  # fmt: skip
        return replace(types.snapshot(name, kind), files=tuple(files))

    def operator(self, uid: str | None, *states: StateSnapshot, name: str = "Counter", parallelism: int = 1) -> None:
        number = OperatorId(f"id-{uid or len(self.operators)}")
        self.operators.append(OperatorSnapshot(number, uid, name, parallelism, self.max_parallelism, states))

    def write(self) -> str:
        metadata = SnapshotMetadata(1, JOB, "counts", 3, self.kind, 1000, tuple(self.operators), self.properties)
        return self.storage.write_metadata(self.location, metadata)

    def finish(self) -> OpenedSnapshot:
        return open_snapshot(self.write())
