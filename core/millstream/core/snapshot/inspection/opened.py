"""A snapshot opened for inspection: its metadata, its operators by name, and the rows of its states by key groups.

Nothing is imported and no pickle is loaded. Every file is compared with its checksum before any of it is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import OperatorSnapshot, SnapshotMetadata, StateFile, StateSnapshot
from millstream.core.snapshot.storage.file_storage import storage_at
from millstream.core.snapshot.storage.storage import CheckpointStorage
from millstream.core.snapshot.tables.files import decode_table, fetch, file_name
from millstream.core.snapshot.tables.restore import check_table

if TYPE_CHECKING:
    import pyarrow as pa


class OpenedSnapshot(Struct, frozen=True):
    """A snapshot that a user named."""

    storage: CheckpointStorage
    location: str
    metadata: SnapshotMetadata

    def operator(self, name: str) -> OperatorSnapshot:
        """The operator of this uid, id, or name if only one has it."""
        operators = self.metadata.operators
        found = [o for o in operators if o.uid == name] or [o for o in operators if o.operator_id == name]
        found = found or [o for o in operators if o.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            known = ", ".join(o.uid or o.operator_id for o in found)
            raise SnapshotError(self.location, f"has {len(found)} operators named '{name}': say which, by {known}")
        known = ", ".join(f"{o.uid or o.operator_id} ({o.name})" for o in operators) or "none"
        near = _nearest(name, [text for o in operators for text in (o.uid, o.name) if text])
        raise SnapshotError(self.location, f"has no operator '{name}': it has {known}{near}")

    def state(self, operator: OperatorSnapshot, name: str) -> StateSnapshot:
        """A state of an operator."""
        for state in operator.states:
            if state.name == name:
                return state
        known = ", ".join(state.name for state in operator.states) or "none"
        raise SnapshotError(
            self.location,
            f"the operator '{operator.uid or operator.name}' has no state '{name}': it has {known}"
            f"{_nearest(name, [state.name for state in operator.states])}",
        )

    def where(self, file: StateFile) -> str:
        """A file's name in errors."""
        return file_name(self.location, file)

    def files(self, state: StateSnapshot) -> list[StateFile]:
        """Those of a state, in the order in which their rows are listed."""
        return sorted(state.files, key=_order)

    def tables(self, state: StateSnapshot, key_group: int | None = None) -> Iterator[tuple[StateFile, pa.Table]]:
        """The checked rows of a state, file by file; of one key group only, if given."""
        wanted = None if key_group is None else [range(key_group, key_group + 1)]
        for file in self.files(state):
            if wanted is None or file.key_groups is None or key_group in file.key_groups:
                data = fetch(self.storage, self.location, file)
                table = decode_table(data, file, self.where(file), wanted)
                yield file, check_table(table, state, self.where(file))


def open_snapshot(pointer: str) -> OpenedSnapshot:
    """Opens a snapshot by its folder or its metadata file: a path, or a URI with its options."""
    storage, location = storage_at(pointer)
    return OpenedSnapshot(storage, location, storage.read_metadata(location))


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1) if len(set(known)) > 1 else []
    return f"; did you mean '{near[0]}'?" if near else ""


class KeyGroupReader:
    """Reads some files of one keyed state by windows of key groups.

    A file is fetched once for neighbouring windows: those that the last window needed are kept, still encoded.
    """

    def __init__(self, snapshot: OpenedSnapshot, state: StateSnapshot, files: Sequence[StateFile]) -> None:
        self._snapshot = snapshot
        self._state = state
        self._files = sorted(files, key=_order)
        self._fetched: dict[str, Any] = {}

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(file.rows for file in self._files)

    def read(self, key_groups: Sequence[range]) -> pa.Table | None:
        """The checked rows in the key groups, sorted by them; None when no file has any of them."""
        import pyarrow as pa

        needed = [file for file in self._files if _meets(file.key_groups, key_groups)]
        kept, self._fetched = self._fetched, {}
        tables = []
        for file in needed:
            data = kept[file.path] if file.path in kept else self._fetch(file)
            self._fetched[file.path] = data
            where = self._snapshot.where(file)
            tables.append(check_table(decode_table(data, file, where, key_groups), self._state, where))
        return pa.concat_tables(tables) if tables else None

    def _fetch(self, file: StateFile) -> Any:
        return fetch(self._snapshot.storage, self._snapshot.location, file)


def _meets(held: range | None, wanted: Sequence[range]) -> bool:
    return held is None or any(held.start < part.stop and part.start < held.stop for part in wanted)


def _order(file: StateFile) -> tuple[int, int]:
    return file.key_group_start or 0, file.subtask
