"""States as the runtime's own writers write them, and the rows that Spark returns, as the same Python values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace
from snapshot_maker import Maker
from typed_values import BASIC, typed_values

from millstream.core.keys.key_groups import key_group_range
from millstream.core.records import types as t
from millstream.core.snapshot import StateKind, StateSnapshot, StateTypes, read_rows, read_state
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.core.snapshot.tables.columns import from_array
from millstream.core.snapshot.tables.redistribution import files_for
from millstream.core.snapshot.tables.restore import Rows
from millstream.spark.reading.states import OpenState
from millstream.spark.types import to_stored
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.restoring import restore_task

WINDOW = t.TupleType((t.LONG, t.LONG), ("start", "end"))
_KEYS = [kind for kind in BASIC if kind not in (t.FLOAT, t.DOUBLE)]  # whose values do not all equal themselves


@st.composite
def states(draw: st.DrawFn, maker: Maker, name: str) -> StateSnapshot:
    """A state of any kind, with keys and values of any types, written into the snapshot."""
    key_type = draw(st.sampled_from(_KEYS))
    keys = draw(st.lists(BASIC[key_type], max_size=5, unique=True))
    kind, values = draw(typed_values())

    def some(each: Any, **sizes: int) -> list[Any]:
        return [draw(each) for _ in keys] if not sizes else draw(st.lists(each, **sizes))

    types = StateTypes(key_type, kind)
    match draw(st.sampled_from(["value", "expiring", "windows", "list", "map", "timers", "elements", "broadcast"])):
        case "value":
            return maker.values(name, dict(zip(keys, some(values), strict=True)), types)
        case "expiring":
            times = some(st.integers(0, 2**40))
            return maker.expiring(name, dict(zip(keys, some(values), strict=True)), types, times)
        case "windows":
            windows = some(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)))
            entries = dict(zip(keys, some(values), strict=True))
            return maker.values(name, entries, StateTypes(key_type, kind, WINDOW), namespaces=windows)
        case "list":
            return maker.lists(name, dict(zip(keys, some(st.lists(values, max_size=3)), strict=True)), types)
        case "map":
            maps = some(st.dictionaries(BASIC[t.DATE], values, max_size=3))
            return maker.maps(name, dict(zip(keys, maps, strict=True)), StateTypes(key_type, kind, map_key=t.DATE))
        case "timers" if keys:
            timers = [(key, draw(st.integers(-(2**63), 2**63 - 1)), "event") for key in keys]
            return maker.timers(name, timers, StateTypes(key_type))
        case "broadcast":
            entries = draw(st.dictionaries(BASIC[t.STRING], values, max_size=3))
            return maker.broadcast(name, entries, StateTypes(value=kind, map_key=t.STRING), copies=2)
    lists = some(st.lists(values, max_size=3), max_size=3)
    of = draw(st.sampled_from([StateKind.OPERATOR_LIST, StateKind.OPERATOR_UNION]))
    return maker.elements(name, lists, StateTypes(value=kind), of)


def rows_of_runtime(snapshot: OpenedSnapshot, opened: OpenState) -> list[str]:
    """The rows as the runtime reads them, as text, since NaN does not equal itself."""
    found: list[str] = []
    for file, table in snapshot.tables(opened.state):
        if file not in opened.files:
            continue
        rows = read_rows(table, opened.state)
        content, detail = rows.content, rows.detail
        columns = {
            "key_group": rows.key_groups, "key": rows.keys, "namespace": rows.namespaces, "value": content,
            "element": content, "position": detail, "map_key": detail, "map_value": content, "timestamp": content,
            "domain": detail, "expires_at": rows.expires_at or [], "subtask": [file.subtask] * len(content),
        }  # fmt: skip
        found += map(repr, zip(*(columns[column.name] for column in opened.columns), strict=True))
    return sorted(found)


def content_of(snapshot: OpenedSnapshot, operator: OperatorSnapshot) -> list[str]:
    """The content of an operator's only state, as text, in any order of rows: each is in the key group of its key."""
    (state,) = operator.states
    found: list[str] = []
    first = min((file.subtask for file in state.files), default=0)
    for file in state.files:
        if state.kind is StateKind.BROADCAST and file.subtask != first:
            continue  # of which each subtask has a copy
        table = read_state(snapshot.storage, snapshot.location, state, file, max_parallelism=operator.max_parallelism)
        found += _texts(read_rows(table, state), state.kind)
    return sorted(found)


def restored_content(snapshot: OpenedSnapshot, operator: OperatorSnapshot, parallelism: int) -> list[str]:
    """The same for what so many new subtasks have together, each restored as a task is."""
    shares = [_restored(snapshot, operator, subtask, parallelism) for subtask in range(parallelism)]
    (state,) = operator.states
    if state.kind in (StateKind.BROADCAST, StateKind.OPERATOR_UNION):  # of which each gets all
        assert all(share == shares[0] for share in shares)
        return shares[0]
    return sorted(text for share in shares for text in share)


def _restored(snapshot: OpenedSnapshot, operator: OperatorSnapshot, subtask: int, parallelism: int) -> list[str]:
    (state,) = operator.states
    files = files_for(state, operator.parallelism, parallelism, operator.max_parallelism, subtask)
    deployment = replace(
        DEPLOYMENT, subtask=subtask, parallelism=parallelism, max_parallelism=operator.max_parallelism,
        restore=operators_to_json([replace(operator, states=(replace(state, files=files),))]),
        restore_location=snapshot.location,
    )  # fmt: skip
    task = restore_task(deployment, snapshot.storage)
    owned = key_group_range(subtask, operator.max_parallelism, parallelism)
    found: list[str] = []
    for stored in (*task.keyed_state(operator.operator_id), *task.operator_state(operator.operator_id)):
        for rows in stored.rows(stored.declaration.types):
            assert all(group in owned for group in rows.key_groups)
            found += _texts(rows, state.kind)
    return sorted(found)


def _texts(rows: Rows, kind: StateKind) -> list[str]:
    detail = rows.detail if kind.keyed or kind is StateKind.BROADCAST else []
    columns = [column for column in (rows.keys, rows.namespaces, detail, rows.expires_at, rows.content) if column]
    return list(map(repr, zip(*columns, strict=True)))


def rows_of_spark(tables: Iterator[Any], opened: OpenState) -> list[str]:
    """The rows of Arrow tables that Spark received or returned, as the same text."""
    found: list[str] = []
    for table in tables:
        columns = [
            from_array(to_stored(table.column(column.name), column.type, column.name), column.type, column.name)
            for column in opened.columns
        ]
        found += map(repr, zip(*columns, strict=True))
    return sorted(found)
