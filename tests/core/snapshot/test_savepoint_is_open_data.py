"""A savepoint without Millstream: other tools read it, and what they write back is validated."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snapshot_maker import Maker
from thoroughness import cases

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.row import Row
from millstream.core.snapshot import (
    FileFormat,
    FileSystemStorage,
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateKind,
    StateTypes,
    list_table,
    read_rows,
    read_state,
    storage_at,
    value_table,
    verify_snapshot,
    write_state,
)
from millstream.core.snapshot.inspection.diff import diff_snapshots
from millstream.core.snapshot.inspection.opened import OpenedSnapshot

COUNTS = StateTypes(t.STRING, t.TupleType((t.LONG, t.DOUBLE)))
EVENTS = StateTypes(t.LONG, t.STRING, namespace=t.RowType((t.LONG, t.LONG), ("start", "end")))


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    storage = FileSystemStorage(str(tmp_path), JobId("abcdef0123"))
    location = storage.savepoint_location()
    counts = {f"user-{i}": (i, i / 2) for i in range(100)}
    table = value_table(counts.keys(), counts.values(), COUNTS, 128)
    one = COUNTS.snapshot("counts", StateKind.VALUE)
    one = msgspec.structs.replace(
        one, files=write_state(storage, location, "counter", "counts", 0, table, FileFormat.PARQUET)
    )
    windows = [Row(start=0, end=10), Row(start=10, end=20)]
    table = list_table([1, 1], [["a", "b"], ["c"]], EVENTS, 128, namespaces=windows)
    two = EVENTS.snapshot("events", StateKind.LIST)
    two = msgspec.structs.replace(
        two, files=write_state(storage, location, "counter", "events", 0, table, FileFormat.PARQUET)
    )
    operator = OperatorSnapshot(OperatorId("op"), "counter", "Counter", 1, 128, (one, two))
    metadata = SnapshotMetadata(1, JobId("abcdef0123"), "job", 3, SnapshotKind.SAVEPOINT, 0, (operator,))
    pointer = storage.write_metadata(location, metadata)
    return Path(pointer.removeprefix("file://"))


@pytest.mark.process
def test_plain_tools_read_it(savepoint: Path) -> None:
    code = f"""
import json, sys
import pandas as pd, pyarrow.parquet as pq
folder = {str(savepoint)!r}
document = json.load(open(folder + "/_metadata.json"))
states = {{s["name"]: s for s in document["operators"][0]["states"]}}
counts = pd.concat(pd.read_parquet(folder + "/" + f["path"]) for f in states["counts"]["files"])
assert {{k: (v["f0"], v["f1"]) for k, v in zip(counts.key, counts.value)}} == {{
    f"user-{{i}}": (i, i / 2) for i in range(100)}}
events = pq.read_table(folder + "/" + states["events"]["files"][0]["path"])
assert sorted(zip(events["namespace"].to_pylist(), events["position"].to_pylist(), events["element"].to_pylist()),
              key=lambda r: r[2]) == [
    ({{"start": 0, "end": 10}}, 0, "a"), ({{"start": 0, "end": 10}}, 1, "b"), ({{"start": 10, "end": 20}}, 0, "c")]
assert not [m for m in sys.modules if m.startswith("millstream")]
print("read", len(counts))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "read 100\n", done.stderr


def counts_file(savepoint: Path) -> tuple[dict[str, Any], dict[str, Any], Path]:
    document = json.loads((savepoint / "_metadata.json").read_text())
    entry = document["operators"][0]["states"][0]["files"][0]
    return document, entry, savepoint / entry["path"]


def declare(savepoint: Path) -> None:
    """Updates the metadata for a changed file, as a tool does that writes a savepoint."""
    document, entry, path = counts_file(savepoint)
    data = path.read_bytes()
    entry.update(size=len(data), rows=pq.read_metadata(path).num_rows)
    entry.update(checksum=f"sha256:{hashlib.sha256(data).hexdigest()}")
    document.pop("checksum", None)
    (savepoint / "_metadata.json").write_text(json.dumps(document))


def restored(savepoint: Path) -> dict[Any, Any]:
    storage, location = storage_at(str(savepoint))
    state = verify_snapshot(storage, location).operators[0].states[0]
    rows = read_rows(read_state(storage, location, state, state.files[0], max_parallelism=128), state, COUNTS)
    return dict(zip(rows.keys, rows.content, strict=True))


def test_files_written_by_pandas_are_restored(savepoint: Path) -> None:
    _, _, path = counts_file(savepoint)
    frame = pd.read_parquet(path)
    frame["value"] = [{"f0": v["f0"] + 1, "f1": v["f1"]} for v in frame["value"]]
    added = {"key_group": key_group_of("new", 128), "key": "new", "value": {"f0": 7, "f1": 0.5}}
    frame = pd.concat([frame, pd.DataFrame([added])]).sort_values("key_group", kind="stable")
    frame.to_parquet(path, index=False)
    with pytest.raises(SnapshotError, match=r"part-0-0.parquet: is damaged"):
        restored(savepoint)
    declare(savepoint)
    counts = restored(savepoint)
    assert counts["new"] == (7, 0.5)
    assert counts["user-3"] == (4, 1.5)
    assert len(counts) == 101


def first_group(table: pa.Table, group: int) -> pa.Table:
    groups = [group, *table["key_group"].to_pylist()[1:]]
    return table.set_column(0, "key_group", pa.array(groups, pa.int32()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.take(list(range(100))[::-1]), "is not sorted by key_group"),
        (lambda f: f.rename_columns(["key_group", "key", "val"]), "has the columns key_group, key, val, and must have"),
        (lambda f: f.append_column("note", pa.array(["x"] * 100)), "has the columns"),
        (lambda f: f.drop_columns(["key_group"]), "has no column key_group"),
        (lambda f: f.set_column(1, "key", pa.array(range(100))), "column key: holds int64, and must hold string"),
        (lambda f: f.set_column(2, "value", pa.array(range(100))), "must hold a struct of f0, f1"),
        (lambda f: first_group(f, -1), "holds the key groups -1 to"),
        (lambda f: f.set_column(1, "key", pa.array([f"other-{i}" for i in range(100)])), "row . has key group"),
        (lambda f: pa.concat_tables([f.slice(0, 1), f]), "has more than one row for 'user-"),
        (lambda f: f.set_column(0, "key_group", pa.array([None] * 100, pa.int32())), "must hold integers"),
    ],
)
def test_invalid_files_are_refused_by_name(savepoint: Path, change: Any, message: str) -> None:
    _, _, path = counts_file(savepoint)
    pq.write_table(change(pq.read_table(path)), path)
    declare(savepoint)
    with pytest.raises(SnapshotError, match=message) as caught:
        restored(savepoint)
    assert str(path) in str(caught.value)


def test_values_of_another_type_are_refused(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.operator("counter", maker.values("counts", {1: 10**30}, StateTypes(t.LONG, t.BIG_INT)))
    savepoint = Path(maker.write().removeprefix("file://"))
    _, _, path = counts_file(savepoint)
    pq.write_table(pq.read_table(path).set_column(2, "value", pa.array(["many"])), path)
    declare(savepoint)
    storage, location = storage_at(str(savepoint))
    with pytest.raises(SnapshotError, match=r"part-0-0.parquet: column value: holds a value that is no BigInteger"):
        verify_snapshot(storage, location)


def test_all_damage_is_detected(savepoint: Path) -> None:
    """Any byte of any file, a missing end, and one file in place of another: refused, and the file is named."""
    storage, location = storage_at(str(savepoint))
    whole = verify_snapshot(storage, location)
    files = sorted(p for p in savepoint.rglob("*") if p.is_file())
    assert len(files) > 2
    contents = {path: path.read_bytes() for path in files}

    def refuses(path: Path) -> bool:
        try:
            verify_snapshot(storage, location)
        except SnapshotError as error:
            return str(path.relative_to(savepoint)) in str(error) and "\n" not in str(error)
        return False

    for path, content in contents.items():
        for number in range(0, len(content), max(1, len(content) // cases(300))):
            path.write_bytes(content[:number] + bytes([content[number] ^ 0x04]) + content[number + 1 :])
            assert refuses(path), f"byte {number} of {path}"
        others = [other for at, other in contents.items() if at != path]
        for damaged in (b"", content[:-1], content[: len(content) // 2], content + b"\0", *others):
            path.write_bytes(damaged)
            assert refuses(path), f"{path} with {len(damaged)} bytes"
        path.unlink()
        assert refuses(path), f"without {path}"
        path.write_bytes(content)
    assert verify_snapshot(storage, location) == whole


def test_a_savepoint_can_be_moved_and_linked_to(savepoint: Path, tmp_path: Path) -> None:
    before = restored(savepoint)
    moved = shutil.move(savepoint, tmp_path / "moved ü%20?#")
    (tmp_path / "link").symlink_to(moved)
    assert restored(moved) == restored(tmp_path / "link") == before


@dataclasses.dataclass(frozen=True)
class Tagged:
    name: str
    tags: list[str]

    def __hash__(self) -> int:
        return hash(self.name)


def test_keys_that_contain_lists_are_validated_like_others(tmp_path: Path) -> None:
    def taken(**counts: int) -> OpenedSnapshot:
        maker, types = Maker(tmp_path), StateTypes(t.DataclassType(Tagged), t.LONG)
        entries = {Tagged("a", [tag]): count for tag, count in counts.items()}
        maker.operator("counter", maker.values("counts", entries, types))
        return maker.finish()

    first, second = taken(x=1, y=2), taken(x=1, y=3)
    verify_snapshot(first.storage, first.location)
    assert diff_snapshots(first, second).operators[0].states[0].changed == 1
    storage, location = first.storage, first.location
    savepoint = Path(location.removeprefix("file://"))
    path = next(savepoint.rglob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, 1), table]), path)
    declare(savepoint)
    with pytest.raises(SnapshotError, match="has more than one row for"):
        verify_snapshot(storage, location)
