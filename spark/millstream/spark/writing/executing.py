"""Writes a draft: files by Spark's tasks, which check them, and the metadata last. On the driver.

Until the metadata is there, which appears whole or not at all, nothing is a savepoint. When anything fails, the folder
is deleted; when this process dies, files without metadata are left, which no one takes for a savepoint. Files of
attempts that Spark did not count are in the folder as well, and are deleted before the metadata is written.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, assert_never
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, new_id
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import (
    FORMAT_VERSION,
    METADATA_FILE,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateSnapshot,
)
from millstream.core.snapshot.metadata.types_json import type_to_json
from millstream.core.snapshot.storage.file_storage import storage_at
from millstream.core.snapshot.storage.uri_files import UriFiles
from millstream.core.snapshot.tables.files import FileFormat
from millstream.spark.errors import SavepointWriteError
from millstream.spark.writing.blocks import Cut
from millstream.spark.writing.draft import AsItIs, Draft, FromRows, PlannedOperator, PlannedState
from millstream.spark.writing.existing import Snapshot, checked, copied, linked, stored_rows
from millstream.spark.writing.filling import Filling, fill_part, keyed_rows
from millstream.spark.writing.jobs import Rows, parts_for, run, write_rows
from millstream.spark.writing.parts import Destination, PartReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

_PARQUET = f".{FileFormat.PARQUET.value}"


class WriteOptions(Struct, frozen=True):
    """How a savepoint is written."""

    link: bool = False
    verify: bool = True
    load_pickles: bool = False
    parts: int | None = None


class SavepointWrite:
    """One write of one draft to one folder."""

    def __init__(
        self, spark: SparkSession, draft: Draft, base: Snapshot | None, uri: str, options: WriteOptions
    ) -> None:
        self._spark, self._draft, self._base, self._uri, self._options = spark, draft, base, uri, options
        self._storage, self._location = storage_at(uri)
        self._files = UriFiles(uri)
        self._taken_over: list[tuple[StateSnapshot, int]] = []
        """States whose files are those of another snapshot, and the max parallelism that they have to fit."""

    def run(self) -> SnapshotMetadata:
        """Writes all of it, or nothing."""
        self._draft.check(self._options.load_pickles)
        self._refuse_existing()
        try:
            states = self._states()
            operators = self._draft.metadata_operators(states)
            metadata = SnapshotMetadata(
                FORMAT_VERSION, JobId(new_id()), self._draft.job_name, 0, SnapshotKind.SAVEPOINT,
                int(time.time() * 1000), operators, self._draft.properties,
            )  # fmt: skip
            self._delete_others(metadata)
            if self._options.verify:
                checked(self._spark, self._uri, self._taken_over)
            self._storage.write_metadata(self._location, metadata)
        except BaseException:
            with contextlib.suppress(SnapshotError):
                self._storage.delete_folder(self._location)
            raise
        return metadata

    def delete(self) -> None:
        """Takes a savepoint back that was written."""
        self._storage.delete_folder(self._location)

    def _refuse_existing(self) -> None:
        if self._files.exists(f"{self._location}/{METADATA_FILE}"):
            raise SavepointWriteError(f"{self._location}: there is a savepoint already: write to another folder")
        if self._files.files(self._location):
            detail = "is not empty, and no savepoint: an earlier write may have broken off there"
            raise SavepointWriteError(f"{self._location}: {detail}; delete it, or write to another folder")

    def _states(self) -> dict[tuple[str, str], StateSnapshot]:
        states: dict[tuple[str, str], StateSnapshot] = {}
        for operator in self._draft.operators.values():
            owner = operator.identifier.operator_id
            for planned in operator.states.values():
                files = self._written(operator, planned)
                states[owner, planned.state.name] = replace(planned.state, files=files)
            for filling in operator.fillings:
                for state, files in self._filled(operator, filling):
                    before = states.get((owner, state.name), state)
                    if replace(before, files=()) != state:
                        detail = f"state '{state.name}' is filled by a function, and written as another one"
                        raise SavepointWriteError(f"operator '{operator.identifier.name}': {detail}")
                    states[owner, state.name] = replace(before, files=before.files + files)
        return states

    def _written(self, operator: PlannedOperator, planned: PlannedState) -> tuple[StateFile, ...]:
        state, destination = planned.state, self._destination(operator)
        match planned.content:
            case AsItIs(source):
                assert self._base is not None, "untouched states are those of another snapshot"
                hashed = operator.is_rehashed and state.kind.keyed
                if source.files and (hashed or (state.kind.keyed and not _is_open(source))):
                    return self._rows(operator, state, (stored_rows(self._spark, self._base, source),), FromRows(()))
                if self._options.link and all(file.inline is None for file in source.files):
                    files = linked(self._base, source, destination, state.name)
                else:
                    files = copied(self._spark, self._base, source, destination, state.name)
                self._taken_over.append((replace(state, files=files), operator.max_parallelism))
                return files
            case FromRows(rows) as content:
                return self._rows(operator, state, rows, content)
            case _:
                assert_never(planned.content)

    def _rows(
        self, operator: PlannedOperator, state: StateSnapshot, rows: tuple[Rows, ...], content: FromRows
    ) -> tuple[StateFile, ...]:
        cut = self._cut(operator, state, rows)
        files = write_rows(rows, state, cut, self._destination(operator), content.rule)
        return tuple(sorted(files, key=lambda file: (file.key_group_start or 0, file.path)))

    def _cut(self, operator: PlannedOperator, state: StateSnapshot | None, rows: tuple[Rows, ...]) -> Cut:
        most = operator.max_parallelism
        parts = self._options.parts or parts_for(self._spark, rows, most)
        key = None if state is None or not state.kind.keyed else state.key_type
        return Cut(most, 1 if key is None else min(parts, most), key, unpickle=self._options.load_pickles)

    def _filled(
        self, operator: PlannedOperator, filling: Filling
    ) -> list[tuple[StateSnapshot, tuple[StateFile, ...]]]:
        rows = (Rows(filling.frame, keyed_rows(filling)),)
        most, destination = operator.max_parallelism, self._destination(operator)
        keyed = filling.key_type is not None
        parts = min(self._options.parts or parts_for(self._spark, rows, most), most) if keyed else 1
        key = None if filling.key_type is None else type_to_json(filling.key_type)

        sent = replace(filling, frame=None)  # which stays on the driver

        def written(batches: Iterable[pa.RecordBatch], part: int) -> PartReport:
            return fill_part(batches, sent, destination, part, most)

        found: dict[str, tuple[StateSnapshot, tuple[StateFile, ...]]] = {}
        for state, files in run(rows, Cut(most, parts, key), written):
            before = found.get(state.name, (state, ()))
            if before[0] != state:
                raise SavepointWriteError(f"the function declares state '{state.name}' in two ways")
            found[state.name] = (state, before[1] + files)
        return list(found.values())

    def _destination(self, operator: PlannedOperator) -> Destination:
        return Destination(self._uri, operator.identifier.name, verify=self._options.verify)

    def _delete_others(self, metadata: SnapshotMetadata) -> None:
        """What attempts left that Spark did not count."""
        own = {file.path for file in metadata.files()}
        others = [path for path in self._files.files(self._location) if path not in own]
        self._storage.delete_files(f"{self._location}/{quote(path)}" for path in others)


def _is_open(state: StateSnapshot) -> bool:
    return all(file.path.endswith(_PARQUET) and file.inline is None for file in state.files)
