"""State files: both formats, only the requested key groups, and damaged files are not used."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from thoroughness import cases

from millstream.core.errors import UnrecoverableError
from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot import (
    CheckpointStorage,
    FileFormat,
    FileSystemStorage,
    MemoryStorage,
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateTypes,
    UnusableFileError,
    WrittenFile,
    element_table,
    list_table,
    read_rows,
    read_state,
    value_table,
    verify_snapshot,
    write_state,
)
from millstream.core.snapshot.storage.storage import StateWriter
from millstream.core.snapshot.tables import files as state_files
from millstream.core.snapshot.tables.files import write_parts

JOB = JobId("job")
PAIR = t.TupleType((t.LONG, t.STRING))
TYPES = StateTypes(t.LONG, PAIR)
STATE = TYPES.snapshot("counts", StateKind.VALUE)
ENTRIES = {i: (i * 2, f"text {i}") for i in range(3000)}


@pytest.fixture(params=["memory", "local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    if request.param == "memory":
        return MemoryStorage(JOB)
    if request.param == "s3":
        return FileSystemStorage(request.getfixturevalue("s3_root").format(path=uuid.uuid4().hex), JOB)
    return FileSystemStorage(str(tmp_path), JOB)


@pytest.fixture
def local(tmp_path: Path) -> FileSystemStorage:
    return FileSystemStorage(str(tmp_path), JOB)


def written(storage: CheckpointStorage, format: FileFormat, **options: Any) -> tuple[str, tuple[StateFile, ...]]:
    location = storage.checkpoint_location(1)
    table = value_table(ENTRIES.keys(), ENTRIES.values(), TYPES, 128)
    return location, write_state(storage, location, "op", "counts", 0, table, format, **options)


@pytest.mark.parametrize("format", FileFormat)
def test_a_state_is_written_and_read(storage: CheckpointStorage, format: FileFormat) -> None:
    location, files = written(storage, format, key_groups=range(0, 128))
    (file,) = files
    assert file.path == f"op/counts/part-0-0.{format.value}"
    assert (file.rows, file.key_groups) == (3000, range(0, 128))
    rows = read_rows(read_state(storage, location, STATE, file, max_parallelism=128), STATE, TYPES)
    assert dict(zip(rows.keys, rows.content, strict=True)) == ENTRIES


@pytest.mark.parametrize("format", FileFormat)
def test_only_the_requested_key_groups_are_read(
    storage: CheckpointStorage, format: FileFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "ROWS_PER_BATCH", 100)
    location, files = written(storage, format, rows_per_file=1000)
    assert len(files) >= 3
    assert all(one.key_group_end <= other.key_group_start for one, other in pairwise(files))
    seen: dict[int, Any] = {}
    for wanted in ([range(0, 5)], [range(5, 50), range(100, 128)], [range(50, 100)], [range(3, 3)]):
        expected = {k: v for k, v in ENTRIES.items() if any(key_group_of(k, 128) in r for r in wanted)}
        found: dict[int, Any] = {}
        for file in files:
            rows = read_rows(read_state(storage, location, STATE, file, key_groups=wanted), STATE, TYPES)
            found.update(zip(rows.keys, rows.content, strict=True))
        assert found == expected
        seen.update(found)
    assert seen == ENTRIES


@pytest.mark.parametrize("format", FileFormat)
def test_large_rows_are_split_into_more_files(
    local: FileSystemStorage, format: FileFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "BYTES_PER_BATCH", 10_000)
    size = value_table(ENTRIES.keys(), ENTRIES.values(), TYPES, 128).nbytes
    location, files = written(local, format, bytes_per_file=size // 4)
    assert 3 <= len(files) <= 5
    rows = [read_rows(read_state(local, location, STATE, file), STATE, TYPES) for file in files]
    assert {key: value for part in rows for key, value in zip(part.keys, part.content, strict=True)} == ENTRIES


@pytest.mark.parametrize("format", FileFormat)
def test_a_large_key_group_is_split(tmp_path: Path, format: FileFormat) -> None:
    storage, types = FileSystemStorage(str(tmp_path), JOB), StateTypes(t.LONG, t.STRING)
    elements = [f"element {n}" for n in range(1000)]
    table = list_table([7], [elements], types, 128)
    location, group = storage.checkpoint_location(1), key_group_of(7, 128)
    files = write_state(storage, location, "op", "events", 0, table, format, rows_per_file=100)
    assert [file.rows for file in files] == [100] * 8 + [200]
    assert {file.key_groups for file in files} == {range(group, group + 1)}
    state = types.snapshot("events", StateKind.LIST)
    read = [read_rows(read_state(storage, location, state, f, max_parallelism=128), state, types) for f in files]
    found = [row for rows in read for row in zip(rows.detail, rows.content, strict=True)]
    assert found == list(enumerate(elements))


@pytest.mark.parametrize("format", FileFormat)
def test_batches_end_where_key_groups_end(format: FileFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "ROWS_PER_BATCH", 500)
    _, (file,) = written(FileSystemStorage(str(tmp_path), JOB), format)
    path = tmp_path / "job" / "chk-1" / file.path
    if format is FileFormat.ARROW:
        with pa.ipc.open_file(path) as reader:
            parts = [reader.get_batch(i)["key_group"].to_pylist() for i in range(reader.num_record_batches)]
    else:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as parquet:
            parts = [parquet.read_row_group(i)["key_group"].to_pylist() for i in range(parquet.num_row_groups)]
    assert 4 <= len(parts) <= 6
    assert all(one[-1] < other[0] for one, other in pairwise(parts))


def test_state_without_keys_and_empty_state(storage: CheckpointStorage) -> None:
    types = StateTypes(value=t.STRING)
    state = types.snapshot("list", StateKind.OPERATOR_LIST)
    location = storage.checkpoint_location(1)
    for format in FileFormat:
        table = element_table(["a", "b"], types)
        (file,) = write_state(storage, location, "op", "list", 1, table, format, inline_below=100_000)
        assert file.inline is not None
        assert file.key_groups is None
        table = read_state(storage, location, state, file, key_groups=[range(1)])
        assert read_rows(table, state).content == ["a", "b"]
    assert write_state(storage, location, "op", "list", 1, element_table([], types), FileFormat.ARROW) == ()


@pytest.mark.parametrize("format", FileFormat)
@pytest.mark.parametrize("damage", ["flip", "truncate", "extend", "empty", "remove"])
def test_a_damaged_file_is_refused_by_name(
    format: FileFormat, damage: str, tmp_path: Path, local: FileSystemStorage
) -> None:
    location, (file,) = written(local, format)
    path = tmp_path / "job" / "chk-1" / file.path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = {"flip": data, "truncate": data[:-1], "extend": data + b"x", "empty": b""}
    path.unlink()
    if damage in damaged:
        path.write_bytes(damaged[damage])
    with pytest.raises(SnapshotError, match=r"does not exist|is damaged") as caught:
        read_state(local, location, STATE, file)
    assert file.path in str(caught.value)


@settings(max_examples=cases(60))
@given(st.data(), st.sampled_from(FileFormat))
def test_content_that_is_not_a_table_is_refused_even_with_its_checksum(data: st.DataObject, format: FileFormat) -> None:
    storage = MemoryStorage(JOB)
    table = value_table([1, 2], [(1, "a"), (2, "b")], TYPES, 128)
    (file,) = write_state(storage, storage.checkpoint_location(1), "op", "s", 0, table, format)
    assert file.inline is not None
    position = data.draw(st.integers(0, len(file.inline) - 1))
    content = bytearray(file.inline)
    content[position] ^= data.draw(st.integers(1, 255))
    content = content[: data.draw(st.sampled_from([position, len(content)]))]
    changed = replace(file, inline=bytes(content), size=len(content), checksum=state_files.checksum_of(bytes(content)))
    try:
        read_state(storage, "memory://job/chk-1", STATE, changed)
    except SnapshotError as error:
        assert file.path in str(error)  # noqa: PT017  # it need not be refused


def test_a_file_that_does_not_match_the_metadata(local: FileSystemStorage) -> None:
    location, (file,) = written(local, FileFormat.PARQUET)
    for change, message in (
        ({"rows": 5}, "has 3000 rows, and the metadata lists 5"),
        ({"key_group_start": 3}, "holds the key groups 0 to 127, and the metadata promises only 3 to 127"),
        ({"checksum": "sha256:" + "0" * 64}, "does not match its checksum"),
    ):
        wrong = replace(file, **change)  # type: ignore[arg-type]
        for wanted in (None, [range(0, 10)], [range(10, 20)]):
            with pytest.raises(SnapshotError, match=message):
                read_state(local, location, STATE, wrong, key_groups=wanted)
    other = StateTypes(t.LONG, t.LONG).snapshot("counts", StateKind.VALUE)
    with pytest.raises(SnapshotError, match=f"{file.path}: column value: holds struct"):
        read_state(local, location, other, file)


class FullDisk(FileSystemStorage):
    """Accepts so many files, then fails while writing."""

    files_left = 2

    def create_writer(self, *args: Any, **options: Any) -> Any:
        writer = super().create_writer(*args, **options)
        self.files_left -= 1
        return writer if self.files_left >= 0 else FailingWriter(writer)


@settings(max_examples=cases(20))
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 9), st.integers(1, 40), st.sampled_from(FileFormat))
def test_a_state_may_be_written_in_parts_of_any_size(
    groups: list[int], size: int, rows_per_file: int, format: FileFormat
) -> None:
    storage = MemoryStorage(JOB)
    table = pa.table(
        {
            "key_group": pa.array(sorted(groups), pa.int32()),
            "key": pa.array(range(len(groups)), pa.int64()),
            "value": pa.array([{"f0": n, "f1": str(n)} for n in range(len(groups))], PAIR.arrow_type()),
        }
    )
    parts = (table.slice(start, size) for start in range(0, table.num_rows, size))
    location = storage.checkpoint_location(1)
    files = write_parts(
        storage, location, "op", "counts", 0, parts, format, key_groups=range(7), rows_per_file=rows_per_file
    )
    assert sum(file.rows for file in files) == table.num_rows
    read = [read_state(storage, location, STATE, file) for file in files]
    assert not read or pa.concat_tables(read).equals(table)
    some = [range(1, 2), range(4, 6)]
    found = [read_state(storage, location, STATE, file, key_groups=some) for file in files]
    chosen = [n for n, group in enumerate(sorted(groups)) if group in (1, 4, 5)]
    assert [key for part in found for key in part["key"].to_pylist()] == chosen


@pytest.mark.parametrize("format", FileFormat)
def test_another_file_begins_where_columns_have_other_types(local: FileSystemStorage, format: FileFormat) -> None:
    types = StateTypes(t.LONG, t.TIMESTAMP)
    values = [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    parts = [value_table([key], [value], types, 128, key_groups=[5]) for key, value in enumerate(values)]
    location = local.checkpoint_location(1)
    files = write_parts(local, location, "op", "at", 0, parts, format)
    assert [file.rows for file in files] == [1, 2]
    state = types.snapshot("at", StateKind.VALUE)
    read = [read_rows(read_state(local, location, state, file), state, types).content for file in files]
    assert [value for part in read for value in part] == values


def test_an_arrow_file_that_lists_the_key_groups_of_its_batches_is_read(local: FileSystemStorage) -> None:
    """As versions before this one wrote them."""
    location = local.checkpoint_location(1)
    table = value_table(ENTRIES.keys(), ENTRIES.values(), TYPES, 128)
    halves = [table.slice(0, 1500), table.slice(1500)]
    listed = [(part["key_group"][0].as_py(), part["key_group"][-1].as_py() + 1, part.num_rows) for part in halves]
    sink = pa.BufferOutputStream()
    schema = table.schema.with_metadata({b"millstream.key_groups": json.dumps(listed).encode()})
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as ipc:
        for part in halves:
            ipc.write_table(part.replace_schema_metadata(schema.metadata), max_chunksize=len(part))
    writer = local.create_writer(location, "op", "counts", 0, "arrow")
    writer.write(sink.getvalue())
    result = writer.commit()
    file = StateFile(result.path, 0, 0, 128, len(ENTRIES), result.size, result.checksum)
    rows = read_rows(read_state(local, location, STATE, file, key_groups=[range(5)]), STATE, TYPES)
    assert dict(zip(rows.keys, rows.content, strict=True)) == {
        key: value for key, value in ENTRIES.items() if key_group_of(key, 128) < 5
    }


class FailingWriter:
    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self.path = writer.path

    def write(self, data: Any) -> int:
        self._writer.write(memoryview(data)[:1])
        raise SnapshotError(self.path, "storage failed: no space left on device")

    def commit(self) -> WrittenFile:
        return self._writer.commit()

    def abort(self) -> None:
        self._writer.abort()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("format", FileFormat)
def test_a_failed_write_leaves_no_file(format: FileFormat, shared: bool, tmp_path: Path) -> None:
    storage = FullDisk(str(tmp_path), JOB)
    with pytest.raises(SnapshotError, match="no space left"):
        written(storage, format, rows_per_file=500, shared=shared)
    assert storage.files_left < 0
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("format", FileFormat)
def test_an_invalid_file_is_a_permanent_error_and_a_missing_one_is_not(
    format: FileFormat, local: FileSystemStorage
) -> None:
    location, (file,) = written(local, format)
    for wrong in (replace(file, rows=7), replace(file, key_group_end=3)):
        with pytest.raises(UnusableFileError):
            read_state(local, location, STATE, wrong)
    with pytest.raises(UnusableFileError):
        read_state(local, location, TYPES.snapshot("counts", StateKind.LIST), file)
    with pytest.raises(SnapshotError) as caught:
        read_state(local, location, STATE, replace(file, path=f"{file.path}.{format.value}"))
    assert not isinstance(caught.value, UnrecoverableError)


def test_a_lack_of_memory_is_not_permanent(local: FileSystemStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*arguments: Any) -> Any:
        raise SnapshotError("file", "cannot be read") from pa.ArrowMemoryError("malloc failed")

    location, (file,) = written(local, FileFormat.ARROW)
    monkeypatch.setattr(state_files, "decode_parts", decode)
    with pytest.raises(SnapshotError) as caught:
        read_state(local, location, STATE, file)
    assert not isinstance(caught.value, UnrecoverableError)


class Together(FileSystemStorage):
    """Reads a file only while another is being read."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, JOB)
        self._both = threading.Barrier(2)

    def read_file(self, location: str, path: str) -> Any:
        self._both.wait(timeout=20)
        return super().read_file(location, path)


@pytest.mark.parametrize("kind", SnapshotKind)
def test_a_snapshot_is_verified_by_several_readers(kind: SnapshotKind, tmp_path: Path) -> None:
    storage = Together(str(tmp_path))
    location, files = written(storage, FileFormat.PARQUET, rows_per_file=1000)
    assert len(files) > 1
    state = replace(STATE, files=files[:2])
    operator = OperatorSnapshot(OperatorId("op"), "op", "Op", 1, 128, (state,))
    metadata = SnapshotMetadata(1, JOB, "job", 1, kind, 0, (operator,))
    assert verify_snapshot(storage, storage.write_metadata(location, metadata)) == metadata


def test_a_snapshot_is_verified_completely(tmp_path: Path, local: FileSystemStorage) -> None:
    for kind, format in ((SnapshotKind.CHECKPOINT, FileFormat.ARROW), (SnapshotKind.SAVEPOINT, FileFormat.PARQUET)):
        location, files = written(local, format, rows_per_file=1000)
        operator = OperatorSnapshot(OperatorId("op"), "op", "Op", 1, 128, (replace(STATE, files=files),))
        metadata = SnapshotMetadata(1, JOB, "job", 1, kind, 0, (operator,))
        pointer = local.write_metadata(location, metadata)
        before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
        assert verify_snapshot(local, pointer) == metadata
        assert before == sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
        (tmp_path / "job" / "chk-1" / files[1].path).write_bytes(b"x")
        with pytest.raises(SnapshotError, match=files[1].path):
            verify_snapshot(local, pointer)


def test_repetitive_columns_have_a_dictionary_in_parquet_and_other_integers_are_packed(
    local: FileSystemStorage,
) -> None:
    pairs = pa.array([{"f0": i, "f1": "same"} for i in range(3000)])
    table = pa.table(
        {
            "key_group": pa.array([0] * 3000, pa.int32()),
            "key": pairs,
            "element": pa.array([[i % 3, 1] for i in range(3000)]),
            "map_value": pa.array([[(i, None)] for i in range(3000)], pa.map_(pa.int64(), pa.null())),
            "value": pa.array([None, *range(2999)], pa.timestamp("us", "UTC")),
            "namespace": pa.array([i / 7 for i in range(3000)]),
        }
    )
    location = local.checkpoint_location(1)
    (written_file,) = write_state(local, location, "op", "s", 0, table, FileFormat.PARQUET)
    file = pq.ParquetFile(pa.BufferReader(local.read_file(location, written_file.path)))
    columns = [file.metadata.row_group(0).column(i) for i in range(file.metadata.num_columns)]
    assert {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings} == {
        "key_group", "key.f1", "element.list.element"
    }  # fmt: skip
    assert {column.path_in_schema for column in columns if "DELTA_BINARY_PACKED" in column.encodings} == {
        "key.f0", "map_value.key_value.key", "value"
    }  # fmt: skip
    assert file.read().equals(table)
