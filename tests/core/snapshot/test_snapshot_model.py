"""The metadata document: what is written is read back, and an invalid document is refused with the place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.snapshot import (
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
    TtlSettings,
    TtlUpdate,
    TtlVisibility,
    ValueEncoding,
    metadata_from_bytes,
    metadata_to_bytes,
)

LONG = {"type": "basic", "name": "Long"}
DIGEST = "sha256:" + "0" * 64
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def files(draw: st.DrawFn, keyed: bool) -> StateFile:
    start = draw(st.integers(0, 128)) if keyed else None
    end = draw(st.integers(start, 128)) if start is not None else None
    inline = draw(st.none() | st.binary(max_size=20))
    size = draw(st.integers(0, 2**40)) if inline is None else len(inline)
    path = draw(st.sampled_from(["a/b/part-0-0.arrow", "s3://bucket/job/shared/x.arrow", "ä b.parquet"]))
    return StateFile(path, draw(st.integers(0, 10)), start, end, draw(st.integers(0, 10)), size, DIGEST, inline)


@st.composite
def states(draw: st.DrawFn) -> StateSnapshot:
    kind = draw(st.sampled_from(StateKind))
    types = [draw(st.sampled_from([None, LONG, {"type": "pickled"}])) for _ in range(3)]
    return StateSnapshot(
        draw(names), kind, LONG if kind.keyed else None, *types, draw(st.sampled_from([None, ValueEncoding.PICKLE])),
        draw(st.none() | st.builds(TtlSettings, st.integers(1, 10**12))),
        tuple(draw(st.lists(files(kind.keyed), max_size=3, unique_by=lambda file: file.path))),
    )  # fmt: skip


@st.composite
def snapshots(draw: st.DrawFn) -> SnapshotMetadata:
    operators = [
        OperatorSnapshot(
            OperatorId(f"op-{n}"), uid, draw(st.text(max_size=4, alphabet="abc")), draw(st.integers(1, 128)), 128,
            tuple(draw(st.lists(states(), max_size=3, unique_by=lambda s: s.name))), draw(st.booleans()),
        )
        for n, uid in enumerate(draw(st.lists(names, max_size=3, unique=True)))
    ]  # fmt: skip
    metadata = SnapshotMetadata(
        1, JobId("job"), draw(names), draw(st.integers(0, 2**60)), SnapshotKind.CHECKPOINT,
        draw(st.integers(-1, 2**60)), tuple(operators), draw(st.dictionaries(names, names, max_size=2)),
    )  # fmt: skip
    may_be_savepoint = not metadata.shared_files()
    return replace(metadata, kind=SnapshotKind.SAVEPOINT) if may_be_savepoint and draw(st.booleans()) else metadata


@given(snapshots())
def test_metadata_is_restored_unchanged(metadata: SnapshotMetadata) -> None:
    assert metadata_from_bytes(metadata_to_bytes(metadata), "m") == metadata


def document() -> dict[str, Any]:
    file = StateFile("o/s/part-0-0.arrow", 0, 0, 64, 3, 4, DIGEST, b"abcd")
    ttl = TtlSettings(5, TtlUpdate.ON_READ_AND_WRITE, TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    state = StateSnapshot("s", StateKind.VALUE, LONG, None, LONG, None, None, ttl, (file,))
    operator = OperatorSnapshot(OperatorId("o"), "u", "Map", 2, 128, (state,))
    metadata = SnapshotMetadata(1, JobId("j"), "name", 1, SnapshotKind.CHECKPOINT, 0, (operator,))
    made: dict[str, Any] = json.loads(metadata_to_bytes(metadata))
    return made


def operator(d: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = d["operators"][0]
    return found


def state(d: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = operator(d)["states"][0]
    return found


def file(d: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = state(d)["files"][0]
    return found


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d.update(version=2), "format version 2; this Millstream reads version 1"),
        (lambda d: d.update(version="1"), "version is '1', and must be an integer"),
        (lambda d: d.pop("version"), "is not a snapshot"),
        (lambda d: d.pop("job_id"), "lacks the field 'job_id'"),
        (lambda d: d.update(jobid=1), "unknown field 'jobid'"),
        (lambda d: d.update(checkpoint_id=True), "checkpoint_id is True, and must be an integer"),
        (lambda d: d.update(checkpoint_id=2**63), "checkpoint_id has more than 64 bits"),
        (lambda d: d.update(created_ms=-(10**30)), "created_ms has more than 64 bits"),
        (lambda d: d.update(job_name="\ud800"), "job_name is no text: it has a half of a surrogate pair in it"),
        (lambda d: d.update(properties={"\ud800": ""}), "has a name that is no text"),
        (lambda d: d.update({"a\nb": 1}), r"unknown field 'a\\nb'"),
        (lambda d: d.update(kind=[[[]]]), r"kind is \[\[\[\]\]\], and must be a string"),
        (lambda d: d.update(kind="backup"), "kind is 'backup', and must be one of checkpoint, savepoint"),
        (lambda d: d.update(operators={}), "operators is {}, and must be a list"),
        (lambda d: d["operators"].append(operator(d)), "operators holds the operator_id 'o' twice"),
        (lambda d: d.update(properties={"a": 1}), r"properties.a is 1, and must be a string"),
        (lambda d: operator(d).update(parallelism=0), r"operators\[0\].parallelism is 0, and must be at least 1"),
        (lambda d: operator(d).update(parallelism=129), "above the max parallelism 128"),
        (lambda d: operator(d).update(max_parallelism=40000), "must be at most 32768"),
        (lambda d: operator(d)["states"].append(state(d)), "holds the name 's' twice"),
        (lambda d: state(d).update(kind="queue"), r"states\[0\].kind is 'queue', and must be one of value, list"),
        (lambda d: state(d).update(key_type=None), "lacks the field 'key_type'"),
        (lambda d: state(d).update(value_type={"type": "basic", "name": "Lång"}), "value_type.name is 'Lång'"),
        (lambda d: state(d).update(value_type="Long"), "value_type is not a type"),
        (lambda d: state(d).update(encoding="json"), "encoding is 'json', and must be one of pickle"),
        (lambda d: state(d)["ttl"].update(ttl_ms=0), "ttl.ttl_ms is 0"),
        (lambda d: file(d).update(path="../x.arrow"), r"files\[0\].path is '../x.arrow'"),
        (lambda d: file(d).update(path="/etc/passwd"), "inside the snapshot's folder"),
        (lambda d: file(d).update(path="a//b"), "inside the snapshot's folder"),
        (lambda d: file(d).update(path="\udc80.arrow"), r"files\[0\].path is no text"),
        (lambda d: file(d).update(rows=2**64), r"files\[0\].rows has more than 64 bits"),
        (lambda d: file(d).update(checksum="crc:1"), "must be 'sha256:'"),
        (lambda d: file(d).update(key_group_end=129), "has the key groups 0 to 129"),
        (lambda d: file(d).update(key_group_start=None, key_group_end=None), "has no key groups"),
        (lambda d: file(d).update(inline="*"), "is not base64"),
        (lambda d: file(d).update(inline="YQ=="), "holds 1 bytes inline"),
        (lambda d: file(d).update(rows=-1), "rows is -1"),
        (lambda d: state(d)["files"].append(file(d)), "files holds the path 'o/s/part-0-0.arrow' twice"),
        (
            lambda d: (d.update(kind="savepoint"), file(d).update(path="file:///x.arrow"), file(d).pop("inline")),
            "refers to file:///x.arrow, and all files of a savepoint lie in its folder",
        ),
    ],
)
def test_a_damaged_document_is_refused_with_its_place(damage: Callable[[dict[str, Any]], Any], message: str) -> None:
    broken = document()
    damage(broken)
    with pytest.raises(SnapshotError, match=message) as caught:
        metadata_from_bytes(json.dumps(broken).encode(), "s3://b/chk-1/_metadata.json")
    assert str(caught.value).startswith("s3://b/chk-1/_metadata.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("levels", [51, 200, 300, 400])
def test_a_type_of_many_levels_is_refused(levels: int) -> None:
    broken = document()
    nested: dict[str, Any] = LONG
    for _ in range(levels):
        nested = {"type": "list", "element": nested}
    state(broken)["value_type"] = nested
    with pytest.raises(SnapshotError, match=r"^m: .*is nested (more than 50 levels deep|too deeply)"):
        metadata_from_bytes(json.dumps(broken).encode(), "m")


def test_a_value_that_is_nested_too_deeply_to_be_shown_is_refused() -> None:
    deep = "[" * 800 + "]" * 800
    with pytest.raises(SnapshotError, match=r"^m: "):
        metadata_from_bytes(
            json.dumps(document() | {"job_id": 0}).replace('"job_id": 0', f'"job_id": {deep}').encode(), "m"
        )


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: state(d).update(name="t"),
        lambda d: operator(d).update(parallelism=3),
        lambda d: d.update(properties={"enumerator.u": "AAAA"}),
        lambda d: d.update(checksum=DIGEST),
    ],
)
def test_damage_that_leaves_a_valid_document_is_detected(damage: Callable[[dict[str, Any]], Any]) -> None:
    broken = document()
    damage(broken)
    with pytest.raises(SnapshotError, match=r"^m: is damaged: its content does not match its checksum"):
        metadata_from_bytes(json.dumps(broken).encode(), "m")


def test_a_document_of_another_tool_needs_no_checksum() -> None:
    written = document()
    expected = metadata_from_bytes(json.dumps(written, sort_keys=True).encode(), "m")
    written.pop("checksum")
    assert metadata_from_bytes(json.dumps(written).encode(), "m") == expected


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"null", b"[" * 100_000])
def test_content_that_is_not_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"^m: "):
        metadata_from_bytes(data, "m")


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=1)


@given(st.data())
def test_any_single_change_of_a_value_is_read_or_refused(data: st.DataObject) -> None:
    changed = document()
    where: Any = changed
    while True:
        key = data.draw(st.sampled_from(list(where) if isinstance(where, dict) else list(range(len(where)))))
        if not isinstance(where[key], dict | list) or not where[key] or data.draw(st.booleans()):
            break
        where = where[key]
    where[key] = data.draw(scalars | st.just({}))
    refused = "m: "
    try:
        metadata_from_bytes(json.dumps(changed).encode(), "m")
    except SnapshotError as error:
        refused = str(error)
    assert refused.startswith("m: ")


@pytest.mark.process
def test_importing_the_package_loads_no_columns() -> None:
    code = "import sys, millstream.core.snapshot; print([m for m in ('pyarrow', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
