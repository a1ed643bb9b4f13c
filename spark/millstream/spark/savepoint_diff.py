"""What changed between two snapshots, compared by Spark. The rules are those of `inspection.diff`: tasks run its code.

The driver reads both metadata and cuts the work into parts: some windows of key groups of one state. A part reads those
key groups of both sides and nothing else, so no row is shuffled; under different max parallelisms there are as many
parts as their greatest common divisor allows. No pickle is loaded.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.snapshot.inspection.diff import (
    ABSENT,
    WINDOW_ROWS,
    Entry,
    OperatorDiff,
    SnapshotDiff,
    StateComparison,
    StateDiff,
    outline,
)
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.core.snapshot.inspection.readable import to_json
from millstream.core.snapshot.metadata.model import SnapshotMetadata, StateKind, absolute_location
from millstream.core.snapshot.storage.file_storage import storage_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CHANGES = {"+": "added", "-": "removed", "~": "changed"}
_PARTS_PER_CORE = 4  # so that a part with much work does not keep the other cores waiting at the end
_ROWS = 4096

_ENTRIES = (
    "operator string, state string, kind string, change string, key string, namespace string, map_key string, "
    "old string, new string"
)
_COUNTED = "state int, part int, added long, removed long, changed long, entries binary"


class _Part(Struct, frozen=True):
    """Some windows of a state: its number among all states of the outline."""

    state: int
    windows: range


class SavepointDiff:
    """Two snapshots, compared. Nothing is read before a DataFrame is used, and each use reads again."""

    def __init__(self, spark: SparkSession, first: str, second: str, window_rows: int = WINDOW_ROWS) -> None:
        """`first` and `second` are folders of snapshots, or their metadata files: paths or URIs.

        A task compares `window_rows` at a time: so many, and no more, are in its memory.
        """
        self._spark, self._window_rows = spark, window_rows
        self._locations = absolute_location(first), absolute_location(second)
        self._opened = open_snapshot(self._locations[0]), open_snapshot(self._locations[1])

    @classmethod
    def compare(cls, spark: SparkSession, first: str, second: str) -> SavepointDiff:
        """Compares two savepoints or checkpoints; a damaged or missing one is refused here, by its metadata."""
        return cls(spark, first, second)

    def entries(self) -> DataFrame:
        """The entries that differ, one row each, those of states that only one side has too.

        `change` is `added`, `removed` or `changed`. `key`, `namespace`, `map_key`, `old` and `new` are JSON, null where
        there is none; a pickled value is its size. A timer and an element of operator state have all of it in `old` or
        `new`.
        """
        return self._mapped(_ENTRIES, _entry_batches)

    def counts(self) -> DataFrame:
        """How many entries of each state were added, removed and changed; states without differences have no row."""
        from pyspark.sql import functions as f

        def of(change: str) -> Any:
            return f.count_if(f.col("change") == change).alias(change)

        return self.entries().groupBy("operator", "state", "kind").agg(*map(of, CHANGES.values()))

    def summary(self, listed: int = 0) -> SnapshotDiff:
        """What `diff_snapshots` returns, with up to `listed` entries of each state."""
        counted: dict[int, list[Any]] = {}
        for row in self._mapped(_COUNTED, _counted_batches(listed)).collect():
            counted.setdefault(row.state, []).append(row)
        numbers = iter(range(len(self._states)))

        def filled(_: OperatorDiff, state: StateDiff) -> StateDiff:
            parts = sorted(counted.get(next(numbers), ()), key=lambda row: row.part)
            entries = [entry for part in parts for entry in pickle.loads(part.entries)]  # of our own tasks
            if state.first is None or state.second is None:
                return replace(state, entries=tuple(entries[:listed]))
            added, removed, changed = (sum(part[change] for part in parts) for change in CHANGES.values())
            return replace(state, added=added, removed=removed, changed=changed, entries=tuple(entries[:listed]))

        return self._outline.with_states(filled)

    @cached_property
    def _outline(self) -> SnapshotDiff:
        return outline(self._opened[0].metadata, self._opened[1].metadata)

    @cached_property
    def _states(self) -> list[tuple[OperatorDiff, StateDiff]]:
        """All states, each with its operator as far as comparing them takes it."""
        return [
            (replace(operator, first=_bare(operator.first), second=_bare(operator.second), states=()), state)
            for operator in self._outline.operators
            for state in operator.states
        ]

    def _parts(self) -> list[_Part]:
        windows = [StateComparison(*self._opened, *pair, self._window_rows).windows for pair in self._states]
        wanted = _PARTS_PER_CORE * self._spark.sparkContext.defaultParallelism
        size = max(1, math.ceil(sum(windows) / wanted))
        return [
            _Part(state, range(start, min(start + size, count)))
            for state, count in enumerate(windows)
            for start in range(0, count, size)
        ]

    def _mapped(self, schema: str, batches: Callable[[_Task], Iterator[pa.RecordBatch]]) -> DataFrame:
        """A row or more for each part."""
        parts, states, locations, rows = self._parts(), self._states, self._locations, self._window_rows
        headers = [replace(opened.metadata, operators=()) for opened in self._opened]

        def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    part = parts[number]
                    sides = (_reopened(place, header) for place, header in zip(locations, headers, strict=True))
                    yield from batches(_Task(number, part, rows, *states[part.state], *sides))

        numbers = self._spark.range(0, len(parts), 1, max(1, len(parts)))
        return numbers.mapInArrow(run, schema)


class _Task(Struct, frozen=True):
    """A part where it is compared."""

    number: int
    part: _Part
    window_rows: int
    operator: OperatorDiff
    state: StateDiff
    first: OpenedSnapshot
    second: OpenedSnapshot

    def differing(self) -> Iterator[Entry]:
        comparison = StateComparison(self.first, self.second, self.operator, self.state, self.window_rows)
        return comparison.differing(self.part.windows)


def _bare(operator: Any) -> Any:
    return None if operator is None else replace(operator, states=())


def _reopened(location: str, header: SnapshotMetadata) -> OpenedSnapshot:
    return OpenedSnapshot(*storage_at(location), header)


def _entry_batches(task: _Task) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    some = task.state.first or task.state.second
    assert some is not None, "a state is on one side at least"
    owner = task.operator.operator
    names = [field.split()[0] for field in _ENTRIES.split(", ")]
    schema = pa.schema([(name, pa.string()) for name in names])
    head = (owner.uid or owner.operator_id, task.state.name, some.kind.value)
    differing = task.differing()
    while entries := list(islice(differing, _ROWS)):
        rows = [(*head, CHANGES[entry.sign], *_columns(entry, some.kind, some.namespace_type)) for entry in entries]
        columns = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=schema)


def _columns(entry: Entry, kind: StateKind, namespace: Any) -> tuple[str | None, ...]:
    """The key, the namespace, the key in a map, and the values before and after, as JSON."""
    path, old, new = list(entry.path), entry.old, entry.new
    key = path.pop(0) if kind.keyed else ABSENT
    space = path.pop(0) if kind.keyed and namespace is not None else ABSENT
    map_key = path.pop(0) if kind in (StateKind.MAP, StateKind.BROADCAST) else ABSENT
    if path:  # what is in the path besides is all that there is of the entry
        whole = {"timestamp": path[0], "domain": path[1]} if kind is StateKind.TIMERS else path[0]
        old, new = (whole if entry.sign == sign else ABSENT for sign in "-+")
    return tuple(None if part is ABSENT else json.dumps(to_json(part)) for part in (key, space, map_key, old, new))


def _counted_batches(listed: int) -> Callable[[_Task], Iterator[pa.RecordBatch]]:
    def count(task: _Task) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        found = task.state.with_entries(task.differing(), listed)
        counts = {"added": found.added, "removed": found.removed, "changed": found.changed}
        row = {"state": task.part.state, "part": task.number, **counts, "entries": pickle.dumps(found.entries)}
        numbers = [(name, pa.int32() if name in ("state", "part") else pa.int64()) for name in row if name != "entries"]
        yield pa.RecordBatch.from_pylist([row], pa.schema([*numbers, ("entries", pa.binary())]))

    return count
