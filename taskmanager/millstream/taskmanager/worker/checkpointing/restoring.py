"""The state that a task is restored from: its own part of a snapshot.

The job manager sends the files that the subtask needs, by the rules of `core.snapshot.redistribution`. Of those the
subtask takes its own key groups, and its share of redistributed elements; a sink also sees the transactions that others
take.

Keyed state may be large: its files are read when the backend loads it, part by part, each file validated before any of
it is used. Those that no function has requested when the task is open are read into memory then: they may be requested
later, when the snapshot is gone. Everything else is read before the operators are built. So a bad file is found before
the first record.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
from millstream.core.snapshot.tables.files import FileFormat, fetch, file_name, read_parts
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
_AHEAD = 32 * 1024 * 1024
"""Bytes of files that are fetched while an earlier one is loaded."""

T = TypeVar("T")


class ReadFile(Struct, frozen=True):
    """Validated rows of one file, still as columns."""

    where: str
    table: pa.Table


class StoredState(Struct, frozen=True):
    """A state as this subtask gets it. `deal` is set if elements are redistributed: (this subtask, parallelism)."""

    state: StateSnapshot
    parts: Iterable[ReadFile]
    deal: tuple[int, int] | None = None
    native: Iterable[RestoredFile] = ()

    @property
    def declaration(self) -> StateDeclaration:
        """The stored declaration."""
        return StateDeclaration(self.state.name, self.state.kind, StateTypes.of(self.state), self.state.ttl)

    def rows(self, declared: StateTypes | None) -> Iterator[Rows]:
        """All rows, as the declared types, which have to be compatible with the stored ones.

        Without any, pickles are not loaded.

        Their classes may no longer exist in the program. Only keys are loaded, to compute their key groups.
        """
        if declared is not None:
            self._check_fit(declared)
        return self._read(declared, declared is not None)

    def tables(self, declared: StateTypes) -> Iterator[pa.Table]:
        """The rows as columns of the declared types, which have to be compatible with the stored ones."""
        self._check_fit(declared)
        stored, now = self.declaration.types.value, declared.stored().value
        what = f"state '{self.state.name}': cannot be restored: column {VALUE}"
        for part in self.parts:
            table = part.table
            place = table.schema.get_field_index(VALUE)
            if place >= 0 and stored is not None and now is not None:
                column = widened(table.column(place).combine_chunks(), stored, now, what)
                table = table.set_column(place, VALUE, column)
            yield table

    def _check_fit(self, declared: StateTypes) -> None:
        verdict = compare_state(self.state, declared.snapshot(self.state.name, self.state.kind))
        if not verdict.ok:
            raise IncompatibleStateError(f"state '{self.state.name}'", f"cannot be restored: {verdict.message}")
        for warning in verdict.warnings:
            log.warning("state '%s': %s", self.state.name, warning)

    def native_files(self, declared: StateTypes | None) -> Iterator[RestoredFile]:
        """The files in a backend's own format, which requires the stored types."""
        for file in self.native:
            if declared is not None:
                now = declared.snapshot(self.state.name, self.state.kind)
                if compare_state(self.state, now).kind is not CompatibilityKind.SAME:
                    raise IncompatibleStateError(
                        f"state '{self.state.name}'",
                        "cannot be restored from a checkpoint with a type other than the stored one: use a savepoint",
                    )
            yield file

    def hold(self) -> None:
        """Reads all files that are not read yet into memory, where they stay."""
        for files in (self.parts, self.native):
            if isinstance(files, StoredFiles):
                files.hold()

    def elements(self) -> list[Any]:
        """The elements of state that is not part of the program, such as splits."""
        return [element for rows in self._read(None, True) for element in rows.content]

    def _read(self, declared: StateTypes | None, unpickle: bool) -> Iterator[Rows]:
        read = (
            read_rows(part.table, self.state, declared, where=part.where, unpickle=unpickle, unpickle_keys=True)
            for part in self.parts
        )
        if self.deal is None:
            return read
        return iter([Rows(dealt([element for rows in read for element in rows.content], *self.deal))])


class StoredFiles(Generic[T]):
    """Files that are read each time they are iterated over, unless they are held."""

    def __init__(self, files: Sequence[StateFile], fetch: Callable[[StateFile], Any], read: Callable[..., Iterable[T]]):
        self._files, self._fetch, self._read = files, fetch, read
        self._held: list[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self._held) if self._held is not None else self._streamed()

    def hold(self) -> None:
        """Keeps the content in memory."""
        self._held = list(self)

    def _streamed(self) -> Iterator[T]:
        """Fetches files on other threads, as many as the next bytes allow, and reads them one after the other."""
        waiting, fetched = deque(self._files), deque[tuple[StateFile, Future[Any]]]()
        readers = ThreadPoolExecutor(_READERS, thread_name_prefix="restore")
        try:
            while waiting or fetched:
                ahead = sum(file.size for file, _ in fetched)
                while waiting and len(fetched) < _READERS and (not fetched or ahead + waiting[0].size <= _AHEAD):
                    file = waiting.popleft()
                    fetched.append((file, readers.submit(self._fetch, file)))
                    ahead += file.size
                file, content = fetched.popleft()
                yield from self._read(file, content.result())
                del content
        finally:
            readers.shutdown(wait=False, cancel_futures=True)  # if one cannot be read, the others are not awaited


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
        """The state for the operator's keyed backend, which owns it from then on; requested once."""
        states = self._states.get(operator_id, [])
        self._states[operator_id] = [stored for stored in states if not stored.state.kind.keyed]
        return [stored for stored in states if stored.state.kind.keyed]

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
    """Finds the state of a task, in files or local copies of them; reads and validates all that is not keyed.

    A bad file is a permanent error that names it: falling back to an older checkpoint would write again what was
    committed since.
    """
    location = location_of(deployment.restore_location)
    operators = operators_from_json(deployment.restore, f"{location or 'the snapshot'}, for {deployment.task_name}")
    states: dict[str, list[StoredState]] = {}
    stored_states = [(operator, state) for operator in operators for state in operator.states if state.files]
    files = [file for _, state in stored_states for file in state.files if file.inline is None]
    reader = _Reader(deployment, location, storage, copies, len(files))
    readers = ThreadPoolExecutor(_READERS, thread_name_prefix="restore")
    try:
        reads = [
            (operator, state, [] if state.kind.keyed else [readers.submit(reader.read, state, f) for f in state.files])
            for operator, state in stored_states
        ]
        for operator, state, tables in reads:
            is_share = is_dealt(state.kind, operator.parallelism, deployment.parallelism)
            deal = (deployment.subtask, deployment.parallelism) if is_share else None
            parts = [part for read in tables for part in read.result()]
            stored = reader.keyed(state) if state.kind.keyed else StoredState(state, tuple(parts), deal)
            states.setdefault(operator.operator_id, []).append(stored)
    finally:
        readers.shutdown(wait=False, cancel_futures=True)  # if one cannot be read, the others are not awaited
    if copies is not None:
        copies.restored(deployment.restored_checkpoint_id, location, files)
    finished = bool(operators) and all(operator.finished for operator in operators)
    return RestoredTask(deployment.restored_checkpoint_id, states, finished)


class _Reader:
    """Reads files for one task, on many threads."""

    def __init__(
        self, deployment: TaskDeployment, location: str, storage: FileSource, copies: LocalCopies | None, files: int
    ) -> None:
        self._deployment, self._location = deployment, location
        self._storage, self._copies = storage, copies
        self._files = files
        self._from_copies: list[StateFile] = []
        self._from_storage: list[StateFile] = []

    def keyed(self, state: StateSnapshot) -> StoredState:
        """A state whose files are read later."""
        native = [file for file in state.files if native_format(file) is not None]
        others = [file for file in state.files if native_format(file) is None]
        return StoredState(
            state,
            StoredFiles(others, self._fetch, lambda file, data: self._parts(state, file, data)),
            None,
            StoredFiles(native, self._fetch, self._native),
        )

    def read(self, state: StateSnapshot, file: StateFile) -> list[ReadFile]:
        """All of a file."""
        return list(self._parts(state, file, self._fetch(file)))

    def _fetch(self, file: StateFile) -> Any:
        """The content of a file, or of its local copy if that is valid, compared with the checksum."""
        with self._needed():
            if self._copies is not None and self._copies.has(self._location, file):
                try:
                    data = fetch(self._copies, self._location, file)
                except SnapshotError as error:
                    log.warning("ignoring an invalid local copy: %s", error)
                else:
                    self._count(file, self._from_copies)
                    return data
            data = fetch(self._storage, self._location, file)
            self._count(file, self._from_storage)
            return data

    def _count(self, file: StateFile, source: list[StateFile]) -> None:
        if self._copies is None or file.inline is not None:
            return
        source.append(file)
        if len(self._from_copies) + len(self._from_storage) == self._files:
            log.info(
                "read %d state files from local copies, %d from %s, for %s",
                len(self._from_copies), len(self._from_storage), self._location, self._deployment.task_name,
            )  # fmt: skip

    def _native(self, file: StateFile, data: Any) -> tuple[RestoredFile, ...]:
        return (RestoredFile(file_name(self._location, file), native_format(file) or "", data),)

    def _parts(self, state: StateSnapshot, file: StateFile, data: Any) -> Iterator[ReadFile]:
        # Files of a savepoint may be written by other tools, so each key is checked; checkpoints are only written here.
        deployment, where = self._deployment, file_name(self._location, file)
        checked = deployment.max_parallelism if file.path.endswith(f".{FileFormat.PARQUET.value}") else None
        owned = key_group_range(deployment.subtask, deployment.max_parallelism, deployment.parallelism)
        groups = [owned] if state.kind.keyed else None
        with self._needed():
            for table in read_parts(data, state, file, where, key_groups=groups, max_parallelism=checked):
                yield ReadFile(where, table)

    @contextlib.contextmanager
    def _needed(self) -> Iterator[None]:
        """Adds to the error of a file what it is needed for."""
        try:
            yield
        except UnusableFileError as error:
            number = self._deployment.restored_checkpoint_id
            needed = f"; checkpoint {number} at {self._location} cannot be restored without it"
            raise UnusableFileError(error.path, error.reason + needed) from error
