"""Snapshots with random contents: each reader returns, or refuses with the file's name, and loads no pickle.

The documents are changed including their checksum, as an attacker would.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from snapshot_maker import Maker
from thoroughness import cases

from millstream.core.records import types as t
from millstream.core.snapshot import (
    FileFormat,
    SnapshotError,
    StateFile,
    StateTypes,
    metadata_from_bytes,
    metadata_to_bytes,
    read_rows,
    verify_snapshot,
)
from millstream.core.snapshot.inspection.diff import diff_snapshots
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.core.snapshot.inspection.verify import check_files
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.core.snapshot.metadata.types_json import describe_json
from millstream.core.snapshot.tables.files import checksum_of

LOADED: list[str] = []


class Bomb:
    """Raises when it is unpickled."""

    def __reduce__(self) -> Any:
        return LOADED.append, ("loaded",)


@pytest.fixture(scope="module", params=FileFormat)
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    maker = Maker(tmp_path_factory.mktemp("snapshots"), format=request.param, properties={"enumerator.source": "YQ=="})
    maker.operator(
        "counter",
        maker.expiring("counts", {f"k{i}": i for i in range(20)}, StateTypes(t.STRING, t.LONG), [5] * 20),
        maker.lists("lists", {1: [(1, "a"), (2, "b")]}, StateTypes(t.LONG, t.TupleType((t.LONG, t.STRING)))),
        maker.maps("maps", {1: {"a": 0.5}}, StateTypes(t.LONG, t.DOUBLE, map_key=t.STRING)),
        maker.timers("timers", [(1, 7, "event-time")], StateTypes(t.LONG, None)),
        maker.values("bombs", {1: Bomb()}, StateTypes(t.LONG, t.PICKLED)),
    )
    maker.operator("elements", maker.elements("elements", [["a"], ["b", "c"]], StateTypes(None, t.STRING)))
    maker.operator("rules", maker.broadcast("rules", {"a": 1}, StateTypes(None, t.LONG, map_key=t.STRING)))
    made = Path(maker.write().removeprefix("file://"))
    shutil.copytree(made, changed_copy(made))
    yield made
    assert LOADED == []


def changed_copy(snapshot: Path) -> Path:
    """The folder whose metadata is changed."""
    return snapshot.with_name(f"{snapshot.name}-changed")


def nested(levels: int, leaf: Any = 0) -> Any:
    for _ in range(levels):
        leaf = [leaf]
    return leaf


def nested_type(levels: int) -> Any:
    document: Any = {"type": "basic", "name": "Long"}
    for _ in range(levels):
        document = {"type": "list", "element": document}
    return document


ODD = st.one_of(
    st.sampled_from([None, True, "", "0", "..", "../x.arrow", "/etc/passwd", "a\0b", "a\nb", "\ud800", "x" * 5000]),
    st.sampled_from(
        ["file:///etc/passwd", "file:///nowhere/x.arrow", "s3:///", "gs://", "memory://x", "x://y", "file://h/"]
    ),
    st.sampled_from([-1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**4000, 0.5, float("inf"), float("nan")]),
    st.sampled_from([(nested, 5), (nested, 500), (nested, 900), (nested_type, 40), (nested_type, 400)]).map(
        lambda made: made[0](made[1])  # type: ignore[operator]  # a pair of a function and its argument
    ),
    st.just({}),
    st.just({"type": "pickled"}),
    st.just({"type": "dataclass", "class": "os:system", "fields": [{"name": "x", "type": {"type": "pickled"}}]}),
)


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a document, except the document itself."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield (*where, key)
        if isinstance(value[key], dict | list):
            yield from places(value[key], (*where, key))


def change(data: st.DataObject, document: Any) -> None:
    *way, last = data.draw(st.sampled_from(list(places(document))), label="place")
    where = document
    for key in way:
        where = where[key]
    match data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "repeat", "rename"]), label="change"):
        case "remove":
            del where[last]
        case "repeat" if isinstance(where, list):
            where.append(copy.deepcopy(where[last]))
        case "rename" if isinstance(where, dict):
            where[data.draw(st.sampled_from(["x", "", "\ud800", "a\nb"]))] = where.pop(last)
        case _:
            where[last] = copy.deepcopy(data.draw(ODD, label="value"))  # one that is put into itself is infinite


READERS: dict[str, Callable[[OpenedSnapshot], Any]] = {
    "verify": lambda opened: verify_snapshot(opened.storage, opened.location),
    "files": lambda opened: check_files(opened.storage, opened.location, opened.metadata),
    "tables": lambda opened: [
        read_rows(table, state, where=opened.where(file))
        for operator in opened.metadata.operators
        for state in operator.states
        for file, table in opened.tables(state)
    ],
    "diff": lambda opened: diff_snapshots(opened, opened),
    "types": lambda opened: [
        describe_json(document)
        for operator in opened.metadata.operators
        for state in operator.states
        for document in (state.key_type, state.namespace_type, state.value_type, state.map_key_type)
        if document is not None
    ],
    "again": lambda opened: metadata_from_bytes(metadata_to_bytes(opened.metadata), "again"),
    "operators": lambda opened: operators_from_json(operators_to_json(opened.metadata.operators), "operators"),
}


def check_refusal(error: SnapshotError, *names: str) -> None:
    message = str(error)
    assert any(name in message for name in names), message
    assert "\n" not in message
    message.encode()


@settings(max_examples=cases(200), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_metadata(snapshot: Path, data: st.DataObject) -> None:
    document = json.loads((snapshot / "_metadata.json").read_bytes())
    del document["checksum"]
    for _ in range(data.draw(st.integers(1, 2), label="changes")):
        change(data, document)
    folder = changed_copy(snapshot)
    (folder / "_metadata.json").write_text(json.dumps(document))
    try:
        opened = open_snapshot(str(folder))
    except SnapshotError as error:
        check_refusal(error, "_metadata.json")
        return
    for reads in READERS.values():
        try:
            reads(opened)
        except SnapshotError as error:
            files = [file.path for file in opened.metadata.files()]
            check_refusal(error, "_metadata.json", *files, str(folder))


@settings(max_examples=cases(200), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_state_file_with_its_checksum(snapshot: Path, data: st.DataObject) -> None:
    opened = open_snapshot(str(snapshot))
    operator = data.draw(st.sampled_from([o for o in opened.metadata.operators if o.states]))
    state = data.draw(st.sampled_from(operator.states))
    file = data.draw(st.sampled_from(state.files))
    content = bytearray((snapshot / file.path).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.sampled_from([0, 1, len(content) // 2, len(content) - 1, len(content)]))
    changed = with_content(file, bytes(content[:end]) + data.draw(st.binary(max_size=3)))
    other = data.draw(st.sampled_from(operator.states))  # another state's types may not fit either
    for described in (state, other):
        alone = replace(operator, states=(replace(described, files=(changed,)),))
        damaged = replace(opened, metadata=replace(opened.metadata, operators=(alone,)))
        try:
            READERS["tables"](damaged)
        except SnapshotError as error:
            check_refusal(error, file.path)


def with_content(file: StateFile, content: bytes) -> StateFile:
    return replace(file, inline=content, size=len(content), checksum=checksum_of(content))


@pytest.mark.parametrize("levels", range(300, 1000, 10))
def test_deeply_nested_operators_of_a_task_are_refused(levels: int) -> None:
    deep = "[" * levels + "]" * levels
    for document in (deep, f'[{{"operator_id": {deep}}}]', f'[{{"states": {deep}}}]'):
        with pytest.raises(SnapshotError, match=r"^the ack: "):
            operators_from_json(document.encode(), "the ack")


@pytest.mark.parametrize("where", ["/nowhere", "file:///nowhere", "/etc/passwd", "/\0", "x://y", "s3://", "file://h/x"])
def test_a_snapshot_at_an_invalid_location(where: str) -> None:
    with pytest.raises(SnapshotError):
        open_snapshot(where)
