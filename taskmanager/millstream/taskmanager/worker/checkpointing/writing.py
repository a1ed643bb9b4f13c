"""The asynchronous part of a snapshot: writes captured state into files, on a thread of its own.

If it fails, the files written so far are deleted. A checkpoint consists of Arrow files, with small states inline; a
savepoint of Parquet files, or of Arrow files if it is native, without inline state. With the job manager's memory as
storage everything is inline.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from millstream.core.jobs.ids import OperatorId
from millstream.core.keys.key_groups import UnhashableKeyError
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import Barrier
from millstream.core.records.conversion import ConversionError
from millstream.core.records.types import PICKLED
from millstream.core.snapshot.errors import SnapshotError, UnwritableStateError
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.storage.storage import FileTarget
from millstream.core.snapshot.tables.files import FileFormat, write_native, write_parts
from millstream.core.snapshot.tables.table import KEY_GROUP, StateTypes, element_table
from millstream.taskmanager.worker.checkpointing.capture import CapturedOperator, CapturedTask
from millstream.taskmanager.worker.checkpointing.layout import Chunk, Layout, TaskLayout, cut, is_touched
from millstream.taskmanager.worker.checkpointing.storages import INLINE_BELOW
from millstream.taskmanager.worker.checkpointing.throttle import WRITERS
from millstream.taskmanager.worker.state.capturing.arrow_tables import operator_table
from millstream.taskmanager.worker.state.capturing.captured import (
    CapturedKeyedState,
    CapturedTable,
    NativeFiles,
    StateDeclaration,
)
from millstream.taskmanager.worker.state.capturing.owned_groups import ForeignKeyError, check_owned

if TYPE_CHECKING:
    import pyarrow as pa

ELEMENT_STATES = {StateKind.SPLITS: "splits", StateKind.SINK_TRANSACTIONS: "transactions"}
SPLIT_TYPES = StateTypes(value=PICKLED)


class SnapshotTarget(Struct, frozen=True):
    """The target of a snapshot. With `shared`, keyed state is divided into files that later checkpoints refer to."""

    storage: FileTarget
    barrier: Barrier
    deployment: TaskDeployment
    shared: bool = False
    bases: Mapping[int, TaskLayout] = field(default_factory=dict)
    inline_below: int = INLINE_BELOW
    """Smaller state is stored in the metadata, except for savepoints."""

    @property
    def format(self) -> FileFormat:
        """The encoding of its files."""
        is_open = self.barrier.is_savepoint and not self.barrier.native
        return FileFormat.PARQUET if is_open else FileFormat.ARROW


class WrittenSnapshot(Struct, frozen=True):
    """The result: `new_files` are the URIs of the files that this snapshot created."""

    operators: tuple[OperatorSnapshot, ...]
    new_files: tuple[str, ...]
    bytes_written: int
    layout: TaskLayout

    def files(self) -> Iterator[StateFile]:
        """All files that the snapshot refers to, including those of earlier ones."""
        return (file for operator in self.operators for state in operator.states for file in state.files)


def write_snapshot(captured: CapturedTask, target: SnapshotTarget) -> WrittenSnapshot:
    """Writes everything, or nothing."""
    writer = _Writer(target)
    try:
        operators = tuple(writer.operator(operator) for operator in captured.operators)
    except BaseException:
        with contextlib.suppress(SnapshotError):
            target.storage.delete_files(writer.new_files)
        raise
    return WrittenSnapshot(operators, tuple(writer.new_files), writer.bytes_written, writer.layout)


def joined(first: WrittenSnapshot, second: WrittenSnapshot) -> WrittenSnapshot:
    """Merges two parts of one snapshot, each operator once."""
    operators = {operator.operator_id: operator for operator in first.operators}
    for operator in second.operators:
        known = operators.setdefault(operator.operator_id, replace(operator, states=()))
        operators[operator.operator_id] = replace(known, states=known.states + operator.states)
    return WrittenSnapshot(
        tuple(operators.values()), first.new_files + second.new_files, first.bytes_written + second.bytes_written,
        {**first.layout, **second.layout},
    )  # fmt: skip


def warm_up() -> None:
    """Loads the modules needed for writing, which takes a second, before the first checkpoint."""
    for module in ("numpy", "pyarrow", "pyarrow.ipc", "pyarrow.fs"):
        importlib.import_module(module)


class _Writer:
    """Writes states and counts bytes."""

    def __init__(self, target: SnapshotTarget) -> None:
        self._target = target
        self.new_files: list[str] = []
        self.bytes_written = 0
        self.layout: dict[tuple[str, str], Layout] = {}

    def operator(self, captured: CapturedOperator) -> OperatorSnapshot:
        states: list[StateSnapshot] = []
        for kind, pickled in captured.elements:
            name = ELEMENT_STATES[kind]
            files = self._write(captured.folder, name, [element_table(pickled, SPLIT_TYPES, pickler=bytes)])
            states.append(replace(SPLIT_TYPES.snapshot(name, kind), files=files))
        if captured.operator is not None:
            for declaration, contents in captured.operator.states:
                with _naming(captured, declaration):
                    table = operator_table(declaration, contents)
                states.append(_described(declaration, self._write(captured.folder, declaration.name, [table])))
        if captured.keyed is not None:
            for state in captured.keyed.states:
                with _naming(captured, state.declaration):
                    files = self._keyed(captured, captured.keyed, state)
                states.append(_described(state.declaration, files))
        for caught in captured.in_flight:
            table = element_table(caught.elements(), SPLIT_TYPES, pickler=bytes)
            files = self._write(captured.folder, caught.name, [table])
            states.append(replace(SPLIT_TYPES.snapshot(caught.name, StateKind.IN_FLIGHT), files=files))
        names = [state.name for state in states]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SnapshotError(
                captured.name, f"has two states named '{twice}', one with keys and one without: rename one of them"
            )
        deployment = self._target.deployment
        return OperatorSnapshot(
            OperatorId(captured.operator_id), None, captured.name, deployment.parallelism, deployment.max_parallelism,
            tuple(states),
        )  # fmt: skip

    def _keyed(
        self, owner: CapturedOperator, captured: CapturedKeyedState, state: CapturedTable
    ) -> tuple[StateFile, ...]:
        native = None if self._target.barrier.is_savepoint else state.native_files()
        if native is not None:
            return self._native(owner, state, native)
        declaration = state.declaration
        owned, operator_id = captured.key_groups, owner.operator_id
        if state.dirty_groups:
            check_owned(owned, state.dirty_groups)
        if not self._target.shared:
            return self._write(owner.folder, declaration.name, state.parts(None, WRITERS.work), owned)
        base, touched = self._base(operator_id, state), state.dirty_groups
        stale, chunks = [owned], []
        if base is not None and touched is not None:
            stale = [chunk.key_groups for chunk in base if is_touched(chunk, touched)]
            chunks = [chunk for chunk in base if not is_touched(chunk, touched)]
        entries = partial(state.entries, work=WRITERS.work)
        total = sum(map(entries, stale)) + sum(chunk.entries for chunk in chunks)
        for block in stale:
            for key_groups, count in cut(block, entries, total):
                parts = state.parts(key_groups, WRITERS.work)
                files = self._write(owner.folder, declaration.name, parts, key_groups, len(self.new_files))
                chunks.append(Chunk(key_groups, files, entries=count))
        chunks.sort(key=lambda chunk: chunk.key_groups.start)
        self.layout[operator_id, declaration.name] = tuple(chunks)
        return tuple(file for chunk in chunks for file in chunk.files)

    def _native(self, owner: CapturedOperator, state: CapturedTable, native: NativeFiles) -> tuple[StateFile, ...]:
        """The files of a backend's own format, except for those that the base checkpoint has already."""
        target, name = self._target, state.declaration.name
        known = {chunk.name: chunk for chunk in self._base(owner.operator_id, state) or ()} if target.shared else {}
        chunks: list[Chunk] = []
        for file in native.files:
            chunk = known.get(file.name)
            if chunk is None:
                with WRITERS.work():
                    written = write_native(
                        target.storage, target.barrier.location, owner.folder, name, target.deployment.subtask,
                        file.path, native.format, key_groups=file.key_groups, rows=file.rows, shared=target.shared,
                        part=len(self.new_files), inline_below=target.inline_below,
                    )  # fmt: skip
                self._count((written,))
                chunk = Chunk(file.key_groups, (written,), file.name)
            chunks.append(chunk)
        if target.shared:
            self.layout[owner.operator_id, name] = tuple(chunks)
        return tuple(file for chunk in chunks for file in chunk.files)

    def _base(self, operator_id: str, state: CapturedTable) -> Layout | None:
        """The layout of the checkpoint that the capture builds upon; None: everything has to be written."""
        if state.base is None or self._target.barrier.full:
            return None
        return self._target.bases.get(state.base, {}).get((operator_id, state.declaration.name))

    def _write(
        self, folder: str, name: str, parts: Iterable[pa.Table], key_groups: range | None = None, first_part: int = 0
    ) -> tuple[StateFile, ...]:
        target = self._target
        files = write_parts(
            target.storage, target.barrier.location, folder, name, target.deployment.subtask,
            parts if key_groups is None else _owned(parts, key_groups), target.format,
            key_groups=key_groups, shared=target.shared and key_groups is not None, first_part=first_part,
            inline_below=0 if target.barrier.is_savepoint else target.inline_below, work=WRITERS.work,
        )  # fmt: skip
        self._count(files)
        return files

    def _count(self, files: Iterable[StateFile]) -> None:
        for file in files:
            self.bytes_written += file.size
            if file.inline is None:
                location = self._target.barrier.location
                self.new_files.append(file.path if file.shared else f"{location}/{quote(file.path)}")


@contextlib.contextmanager
def _naming(operator: CapturedOperator, declaration: StateDeclaration) -> Iterator[None]:
    """Adds the owner of keys or values that do not fit their declared type to the error."""
    try:
        yield
    except (ConversionError, UnhashableKeyError) as error:
        where = f"{operator.name}: state '{declaration.name}'"
        raise UnwritableStateError(where, f"cannot be written: {error}") from None
    except ForeignKeyError as error:
        raise SnapshotError(f"{operator.name}: state '{declaration.name}'", f"cannot be written: {error}") from error


def _owned(parts: Iterable[pa.Table], key_groups: range) -> Iterator[pa.Table]:
    """The parts, none of which may have rows of other key groups."""
    for part in parts:
        if part.num_rows:
            groups = part.column(KEY_GROUP)  # sorted
            check_owned(key_groups, (groups[0].as_py(), groups[-1].as_py()))
        yield part


def _described(declaration: StateDeclaration, files: tuple[StateFile, ...]) -> StateSnapshot:
    described = declaration.types.snapshot(declaration.name, declaration.kind)
    return replace(described, ttl=declaration.ttl, files=files)
