"""What everything in the backend of bytes has in common: rows under the name of a state, and captures of them."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
from ordered_bytes import OrderedBytes, framed, key_bytes

from millstream.taskmanager.worker.state.capturing.arrow_tables import StateRows, keyed_table
from millstream.taskmanager.worker.state.capturing.captured import (
    NativeFile,
    NativeFiles,
    RestoredFile,
    StateDeclaration,
    Work,
)
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex


class StoredRows:
    """What a state and its timers have in common: rows under the name of the state."""

    def __init__(self, declaration: StateDeclaration, index: KeyGroupIndex, store: OrderedBytes) -> None:
        self.declaration, self.index, self.store = declaration, index, store
        self.prefix = framed(declaration.name.encode())
        for row, _ in list(store.scan(self.prefix)):  # as stored, of a state that is only requested now
            store.delete(self.prefix + row)

    def place(self, entry: Any, between: bytes = b"") -> bytes:
        """The prefix of the rows of a key, or of key and namespace; with what is between the key group and the key."""
        key, *namespace = entry if self.declaration.namespaced else (entry,)
        types = self.declaration.types
        parts = zip((key, *namespace), (types.key, types.namespace), strict=False)
        group = self.index.of(key).to_bytes(2, "big")
        return self.prefix + group + between + b"".join(framed(key_bytes(part, kind)) for part, kind in parts)

    def load_native(self, file: RestoredFile) -> None:
        assert file.format == "bytes"
        group, rows = pickle.loads(file.data)
        for row, data in rows if group in self.index.owned else ():
            self.store.put(self.prefix + group.to_bytes(2, "big") + row, data)


class CapturedBytes:
    """The rows of one state in a snapshot of the store.

    Its native format: a file for each key group, named by content.
    """

    dirty_groups: frozenset[int] | None = None

    def __init__(
        self, declaration: StateDeclaration, store: OrderedBytes, prefix: bytes, index: KeyGroupIndex, base: int | None
    ) -> None:
        self.declaration = declaration
        self.base = base
        self._store: OrderedBytes | None = store
        self._prefix, self._index = prefix, index
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def _scan(self, group: int) -> Iterator[tuple[bytes, bytes]]:
        return iter(()) if self._store is None else self._store.scan(self._prefix + group.to_bytes(2, "big"))

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        """One part for each key group with rows."""
        is_empty = True
        for group in sorted(self._index.owned if key_groups is None else key_groups):
            with work():
                part = self._table(group, list(self._scan(group)))
            if part.num_rows:
                yield part
                is_empty = False
        if is_empty:
            yield self._table(0, [])

    def _table(self, group: int, rows: list[tuple[bytes, bytes]]) -> pa.Table:
        return keyed_table(self.declaration, self._rows(group, rows), self._index.max_parallelism)

    def _rows(self, group: int, rows: list[tuple[bytes, bytes]]) -> StateRows:
        raise NotImplementedError

    def entries(self, key_groups: Collection[int], work: Work = nullcontext) -> int:
        return sum(1 for group in key_groups for _ in self._scan(group))

    def native_files(self) -> NativeFiles:
        files = []
        self._folder = self._folder or tempfile.TemporaryDirectory()
        for group in self._index.owned:
            if rows := list(self._scan(group)):
                content = pickle.dumps((group, rows))
                name = hashlib.sha256(content).hexdigest()
                path = Path(self._folder.name) / name
                path.write_bytes(content)
                files.append(NativeFile(name, str(path), range(group, group + 1), len(rows)))
        return NativeFiles("bytes", tuple(files))

    def release(self) -> None:
        self._store = None
        if self._folder is not None:
            self._folder.cleanup()
