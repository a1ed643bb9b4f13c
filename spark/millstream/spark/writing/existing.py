"""What another snapshot holds: read as rows to be written again, copied byte for byte, or linked to.

Every file is compared with its checksum when it is read. A link is another name of the same file in the new savepoint's
folder: both snapshots have it then, and either can be deleted without the other. Only a local file system has links.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import new_id
from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot
from millstream.core.snapshot.storage.file_storage import storage_at
from millstream.core.snapshot.storage.storage import part_path
from millstream.core.snapshot.storage.uri_files import UriFiles
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.files import fetch, file_name, read_state
from millstream.core.snapshot.tables.parts import native_format
from millstream.core.snapshot.tables.table import KEY_GROUP
from millstream.spark.errors import SavepointWriteError
from millstream.spark.writing.jobs import Rows
from millstream.spark.writing.parts import REPORT_SCHEMA, Destination, PartReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


Types = dict[str, t.TypeInformation | None]
"""Of columns, by their names."""


class Snapshot(Struct, frozen=True):
    """Where the files of another snapshot lie. The URI may have credentials and options."""

    uri: str


def stored_rows(
    spark: SparkSession, snapshot: Snapshot, state: StateSnapshot,
    change: Callable[[pa.Table], pa.Table] | None = None,
) -> Rows:  # fmt: skip
    """All rows of a state, a task for each file; changed while reading, if requested."""
    files, uri = state.files, snapshot.uri

    def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        storage, location = storage_at(uri)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                table = read_state(storage, location, state, files[number])
                if KEY_GROUP in table.column_names:
                    table = table.drop_columns(KEY_GROUP)
                yield table if change is None else change(table)

    frame = spark.range(0, len(files), 1, max(1, len(files)))
    return Rows(frame, tables, size=sum(file.size for file in files))


def redeclared(stored: Types, declared: Types) -> Callable[[pa.Table], pa.Table]:
    """What makes columns of other types of those of a table, by way of the values; pickles are loaded."""
    changed = {name: (stored[name], kind) for name, kind in declared.items() if kind != stored[name]}

    def change(table: pa.Table) -> pa.Table:
        for name, (before, after) in changed.items():
            if name in table.column_names and before is not None and after is not None:
                values = from_array(table.column(name), before, name, unpickle=True)
                table = table.set_column(table.column_names.index(name), name, to_array(values, after, name))
        return table

    return change


def copied(
    spark: SparkSession, snapshot: Snapshot, state: StateSnapshot, destination: Destination, name: str
) -> tuple[StateFile, ...]:
    """The files of a state, byte for byte, a task for each; those that were in the metadata become files."""
    files, uri, target = state.files, snapshot.uri, destination

    def copy(number: int) -> StateFile:
        storage, location = storage_at(uri)
        data = fetch(storage, location, files[number])
        new, folder = storage_at(target.uri)
        suffix = f"{new_id()[:12]}.{_ending(files[number])}"  # other attempts of the task have names of their own
        writer = new.create_writer(folder, target.operator, name, files[number].subtask, suffix, part=number)
        try:
            writer.write(data)
            made = writer.commit()
        except BaseException:
            writer.abort()
            raise
        return replace(files[number], path=made.path, inline=None)

    def tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield PartReport(((state, (copy(number),)),)).encoded()

    if not files:
        return ()
    return collected(spark, len(files), tasks)


def collected(spark: SparkSession, count: int, tasks: Any) -> tuple[StateFile, ...]:
    """What tasks report that are given one number each."""
    rows = spark.range(0, count, 1, count).mapInArrow(tasks, REPORT_SCHEMA).collect()
    reports = [PartReport.decoded(row[0]) for row in rows]
    for report in reports:
        if report.fault:
            raise SavepointWriteError(report.fault)
    return tuple(file for report in reports for _, files in report.files for file in files)


def linked(snapshot: Snapshot, state: StateSnapshot, destination: Destination, name: str) -> tuple[StateFile, ...]:
    """The same files under names in the new folder."""
    made, location = [], storage_at(snapshot.uri)[1]
    for number, file in enumerate(state.files):
        path = part_path(destination.operator, name, file.subtask, number, _ending(file))
        _link(snapshot.uri, file_name(location, file), f"{storage_at(destination.uri)[1]}/{path}")
        made.append(replace(file, path=path))
    return tuple(made)


def _ending(file: StateFile) -> str:
    """Its format, by the suffix of its name."""
    native, name = native_format(file), file.path.rpartition("/")[2]
    return ".".join(name.split(".")[-2:]) if native else name.rpartition(".")[2]


def _link(root: str, source: str, target: str) -> None:
    systems = [UriFiles(root).locate(uri) for uri in (source, target)]
    if any(system.type_name != "local" for system, _ in systems):
        raise SavepointWriteError(f"{source}: only files of a local file system have links: copy the states")
    (_, before), (_, after) = systems
    try:
        os.makedirs(os.path.dirname(after), exist_ok=True)
        os.link(before, after)
    except OSError as error:
        detail = f"{source}: cannot be linked to {target}: {error.strerror}: copy the states"
        raise SavepointWriteError(detail) from error


def checked(spark: SparkSession, uri: str, states: list[tuple[StateSnapshot, int]]) -> None:
    """Reads files that were taken over as a restore would: columns, types, rows, key groups, each key once."""
    files = [(state, most, file) for state, most in states for file in state.files]

    def tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage, location = storage_at(uri)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                state, most, file = files[number]
                fault = ""
                try:
                    read_state(storage, location, state, file, max_parallelism=most)
                except MillstreamError as error:
                    fault = str(error)
                yield PartReport(fault=fault).encoded()

    if files:
        collected(spark, len(files), tasks)
