"""The state that a task is restored from: its own part of a snapshot, read and validated before the task is opened.

The job manager sends the files that the subtask needs, by the rules of `core.snapshot.redistribution`. Of those the
subtask takes its own key groups, and its share of redistributed elements; a sink also sees the transactions that others
take.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.state_kinds import OPERATOR
from millstream.core.keys.key_groups import key_group_range
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.snapshot.errors import IncompatibleStateError, SnapshotError, UnusableFileError
from millstream.core.snapshot.fitting.compatibility import CompatibilityKind, compare_state
from millstream.core.snapshot.metadata.model import StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_from_json
from millstream.core.snapshot.storage.storage import FileSource, location_of
from millstream.core.snapshot.tables.files import FileFormat, fetch, file_name, read_state
from millstream.core.snapshot.tables.parts import native_format
from millstream.core.snapshot.tables.redistribution import dealt, is_dealt
from millstream.core.snapshot.tables.restore import Rows, read_rows
from millstream.core.snapshot.tables.table import VALUE, StateTypes
from millstream.core.snapshot.tables.widening import widened
from millstream.taskmanager.worker.checkpointing.local_copies import LocalCopies
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, RestoredState, StateDeclaration

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_READERS = 8


class ReadFile(Struct, frozen=True):
    """The validated rows of one file, still as columns."""

    where: str
    table: pa.Table


class StoredState(Struct, frozen=True):
    """A state as this subtask gets it. `deal` is set if elements are redistributed: (this subtask, parallelism)."""

    state: StateSnapshot
    parts: tuple[ReadFile, ...]
    deal: tuple[int, int] | None = None
    native: tuple[RestoredFile, ...] = ()

    @property
    def declaration(self) -> StateDeclaration:
        """The stored declaration."""
        return StateDeclaration(self.state.name, self.state.kind, StateTypes.of(self.state), self.state.ttl)

    def rows(self, declared: StateTypes | None) -> Rows:
        """All rows, as the declared types, which have to be compatible with the stored ones.

        Without any, pickles are not loaded.

        Their classes may no longer exist in the program. Only keys are loaded, to compute their key groups.
        """
        if declared is None:
            return self._read(None, False)
        self._check_fit(declared)
        return self._read(declared, True)

    def tables(self, declared: StateTypes) -> list[pa.Table]:
        """The rows as columns of the declared types, which have to be compatible with the stored ones."""
        self._check_fit(declared)
        stored, now = self.declaration.types.value, declared.stored().value
        what = f"state '{self.state.name}': cannot be restored: column {VALUE}"
        tables = [part.table for part in self.parts]
        for number, table in enumerate(tables):
            place = table.schema.get_field_index(VALUE)
            if place >= 0 and stored is not None and now is not None:
                column = widened(table.column(place).combine_chunks(), stored, now, what)
                tables[number] = table.set_column(place, VALUE, column)
        return tables

    def _check_fit(self, declared: StateTypes) -> None:
        verdict = compare_state(self.state, declared.snapshot(self.state.name, self.state.kind))
        if not verdict.ok:
            raise IncompatibleStateError(f"state '{self.state.name}'", f"cannot be restored: {verdict.message}")
        for warning in verdict.warnings:
            log.warning("state '%s': %s", self.state.name, warning)

    def native_files(self, declared: StateTypes | None) -> tuple[RestoredFile, ...]:
        """The parts in a backend's own format, which requires the stored types."""
        if self.native and declared is not None:
            now = declared.snapshot(self.state.name, self.state.kind)
            if compare_state(self.state, now).kind is not CompatibilityKind.SAME:
                raise IncompatibleStateError(
                    f"state '{self.state.name}'",
                    "cannot be restored from a checkpoint with a type other than the stored one: use a savepoint",
                )
        return self.native

    def elements(self) -> list[Any]:
        """The elements of state that is not part of the program, such as splits."""
        return self._read(None, True).content

    def _read(self, declared: StateTypes | None, unpickle: bool) -> Rows:
        read = [
            read_rows(part.table, self.state, declared, where=part.where, unpickle=unpickle, unpickle_keys=True)
            for part in self.parts
        ]
        if self.deal is not None:
            return Rows(dealt([element for rows in read for element in rows.content], *self.deal))
        return read[0] if len(read) == 1 else _joined(read)


def _joined(read: Sequence[Rows]) -> Rows:
    def column(name: str) -> list[Any]:
        return [item for rows in read for item in getattr(rows, name)]

    expires = None if any(rows.expires_at is None for rows in read) else column("expires_at")
    return Rows(
        column("content"), column("keys"), column("namespaces"), column("detail"), expires, column("key_groups")
    )


class StoredElements(Struct, frozen=True):
    """State of one kind that an operator keeps by itself, such as splits and transactions."""

    kind: StateKind
    stored: tuple[StoredState, ...]

    def own(self) -> list[Any]:
        """What this subtask takes over."""
        return [element for state in self.stored for element in state.elements()]

    def everyones(self) -> list[Any]:
        """Also what other subtasks take over, if it is visible to this one."""
        return [element for state in self.stored for element in replace(state, deal=None).elements()]


class RestoredTask:
    """The restored state of the operators of one task, by operator id."""

    def __init__(self, checkpoint_id: int, states: dict[str, list[StoredState]], finished: bool = False) -> None:
        self.checkpoint_id = checkpoint_id
        self._states = states
        self.finished = finished
        """Whether all subtasks of the task's vertex had finished: there is nothing left to run."""

    def keyed_state(self, operator_id: str) -> list[RestoredState]:
        """The state for the operator's keyed backend."""
        return [stored for stored in self._states.get(operator_id, ()) if stored.state.kind.keyed]

    def operator_state(self, operator_id: str) -> list[RestoredState]:
        """The state for the operator's backend of operator state."""
        return [stored for stored in self._states.get(operator_id, ()) if stored.state.kind in OPERATOR]

    def in_flight(self) -> list[tuple[str, list[Any]]]:
        """The in-flight records emitted by the task's operators that this subtask emits again, by state."""
        found = [stored for operator_id in self._states for stored in self._of(operator_id, StateKind.IN_FLIGHT)]
        return [(stored.state.name, stored.elements()) for stored in found]

    def elements(self, operator_id: str, kind: StateKind) -> StoredElements:
        """The state that the operator keeps outside of the backends."""
        return StoredElements(kind, tuple(self._of(operator_id, kind)))

    def _of(self, operator_id: str, kind: StateKind) -> list[StoredState]:
        return [stored for stored in self._states.get(operator_id, ()) if stored.state.kind is kind]


def restore_task(deployment: TaskDeployment, storage: FileSource, copies: LocalCopies | None = None) -> RestoredTask:
    """Reads and validates all files of a task, or local copies of them.

    A bad file is a permanent error that names it: falling back to an older checkpoint would write again what was
    committed since.
    """
    location = location_of(deployment.restore_location)
    operators = operators_from_json(deployment.restore, f"{location or 'the snapshot'}, for {deployment.task_name}")
    states: dict[str, list[StoredState]] = {}
    reader = _Reader(deployment, location, storage, copies)
    readers = ThreadPoolExecutor(_READERS, thread_name_prefix="restore")
    try:
        reads = [
            (operator, state, [readers.submit(reader.read, state, file) for file in state.files])
            for operator in operators
            for state in operator.states
            if state.files
        ]
        for operator, state, tables in reads:
            is_share = is_dealt(state.kind, operator.parallelism, deployment.parallelism)
            deal = (deployment.subtask, deployment.parallelism) if is_share else None
            parts = [read.result() for read in tables]
            stored = StoredState(
                state, tuple(part for part in parts if isinstance(part, ReadFile)), deal,
                tuple(part for part in parts if isinstance(part, RestoredFile)),
            )  # fmt: skip
            states.setdefault(operator.operator_id, []).append(stored)
    except UnusableFileError as error:
        needed = f"; checkpoint {deployment.restored_checkpoint_id} at {location} cannot be restored without it"
        raise UnusableFileError(error.path, error.reason + needed) from error
    finally:
        readers.shutdown(wait=False, cancel_futures=True)  # if one cannot be read, the others are not awaited
    if copies is not None:
        read = [file for _, state, _ in reads for file in state.files if file.inline is None]
        log.info(
            "read %d state files from local copies, %d from %s, for %s",
            len(reader.copied), len(read) - len(reader.copied), location, deployment.task_name,
        )  # fmt: skip
        copies.restored(deployment.restored_checkpoint_id, location, read)
    finished = bool(operators) and all(operator.finished for operator in operators)
    return RestoredTask(deployment.restored_checkpoint_id, states, finished)


class _Reader:
    """Reads files for one task, on many threads. `copied` are those of which a valid local copy was used."""

    def __init__(
        self, deployment: TaskDeployment, location: str, storage: FileSource, copies: LocalCopies | None
    ) -> None:
        self._deployment, self._location = deployment, location
        self._storage, self._copies = storage, copies
        self.copied: list[StateFile] = []

    def read(self, state: StateSnapshot, file: StateFile) -> ReadFile | RestoredFile:
        if self._copies is not None and self._copies.has(self._location, file):
            try:
                read = self._read(self._copies, state, file)
            except SnapshotError as error:
                log.warning("ignoring an invalid local copy: %s", error)
            else:
                self.copied.append(file)
                return read
        return self._read(self._storage, state, file)

    def _read(self, source: FileSource, state: StateSnapshot, file: StateFile) -> ReadFile | RestoredFile:
        where, native = file_name(self._location, file), native_format(file)
        if native is not None:
            return RestoredFile(where, native, fetch(source, self._location, file))
        # Files of a savepoint may be written by other tools, so each key is checked; checkpoints are only written here.
        deployment = self._deployment
        checked = deployment.max_parallelism if file.path.endswith(f".{FileFormat.PARQUET.value}") else None
        owned = key_group_range(deployment.subtask, deployment.max_parallelism, deployment.parallelism)
        groups = [owned] if state.kind.keyed else None
        table = read_state(source, self._location, state, file, key_groups=groups, max_parallelism=checked)
        return ReadFile(where, table)
