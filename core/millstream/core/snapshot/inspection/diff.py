"""What changed between two snapshots: operators, states, types, and entries.

Entries of keyed state are compared by windows of key groups, so that only a window of each snapshot is in memory, and
the files that hold it. Under different max parallelisms, the key groups that are alike modulo their greatest common
divisor hold the same keys. Operator state is compared a state at a time: lists as bags of elements, because
rescaling moves them between subtasks, and one copy of broadcast state. Pickled values are compared as bytes; when
entries expire is not compared. Where only the type of the values has changed, entries are compared all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.snapshot.fitting.compatibility import CompatibilityKind, compare_keys, compare_state
from millstream.core.snapshot.fitting.fit import match_operators
from millstream.core.snapshot.inspection.opened import KeyGroupReader, OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.tables.restore import Rows, frozen, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

_WINDOW_ROWS = 64 * 1024

Say = Callable[[str], None]
Entries = Mapping[Any, Any]


class Absent(Enum):
    """In the place of a value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that differs: `+` only in the second snapshot, `-` only in the first, `~` in both.

    `path` names it: the key, then the namespace and the key in a map where there are such; or an element itself.
    `old` and `new` are its values, ABSENT on a side that does not have it, and where the path says all.
    """

    sign: str
    path: tuple[Any, ...]
    old: Any = field(default=ABSENT, compare=False)
    new: Any = field(default=ABSENT, compare=False)


class StateDiff(Struct, frozen=True):
    """One state on both sides; None where a side does not have it. With other keys, entries are not compared.

    Entries of a state that only one side has are not counted: its rows are.
    """

    name: str
    first: StateSnapshot | None
    second: StateSnapshot | None
    types: str = ""
    added: int = 0
    removed: int = 0
    changed: int = 0
    entries: tuple[Entry, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        both = self.first is not None and self.second is not None
        return both and not (self.types or self.added or self.removed or self.changed)


class OperatorDiff(Struct, frozen=True):
    """One operator on both sides; None where a side does not have it.

    Its parallelism is no difference of state, and neither is an operator without any.
    """

    first: OperatorSnapshot | None
    second: OperatorSnapshot | None
    states: tuple[StateDiff, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        if self.first is None or self.second is None:
            return not self.operator.states
        return all(state.equal for state in self.states)

    @property
    def operator(self) -> OperatorSnapshot:
        """The operator, on the side that has it."""
        found = self.first or self.second
        assert found is not None, "an operator is on one side at least"
        return found


class SnapshotDiff(Struct, frozen=True):
    """All operators of both sides, and the properties (states of split enumerators) that differ."""

    operators: tuple[OperatorDiff, ...]
    properties: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both hold the same state."""
        return not self.properties and all(operator.equal for operator in self.operators)


def diff_snapshots(
    first: OpenedSnapshot, second: OpenedSnapshot, listed: int = 0, say: Say = lambda message: None
) -> SnapshotDiff:
    """Compares two snapshots. Up to `listed` entries that differ are named for each state."""
    operators = first.metadata.operators
    matched = match_operators(second.metadata, operators)
    met = {other.operator_id for other in matched if other is not None}
    new = (o for o in second.metadata.operators if o.operator_id not in met)
    comparison = _Comparison(first, second, listed, say)
    compared = (comparison.operators(one, other) for one, other in zip(operators, matched, strict=True))
    properties = first.metadata.properties, second.metadata.properties
    names = sorted({*properties[0], *properties[1]})
    return SnapshotDiff(
        (*compared, *(comparison.one_sided(None, operator) for operator in new)),
        tuple(name for name in names if properties[0].get(name) != properties[1].get(name)),
    )


class _Comparison:
    """Two snapshots, and how many entries to list."""

    def __init__(self, first: OpenedSnapshot, second: OpenedSnapshot, listed: int, say: Say) -> None:
        self._first, self._second = first, second
        self._listed = listed
        self._say = say

    def operators(self, one: OperatorSnapshot, other: OperatorSnapshot | None) -> OperatorDiff:
        """One operator."""
        if other is None:
            return self.one_sided(one, None)
        before, after = ({state.name: state for state in side.states} for side in (one, other))
        names = [*before, *(name for name in after if name not in before)]
        states = (self._states(one, other, name, before.get(name), after.get(name)) for name in names)
        return OperatorDiff(one, other, tuple(states))

    def one_sided(self, one: OperatorSnapshot | None, other: OperatorSnapshot | None) -> OperatorDiff:
        """An operator that the other snapshot does not have."""
        found = one or other
        assert found is not None, "an operator is on one side at least"
        states = (
            self._states(found, found, state.name, *((None, state) if one is None else (state, None)))
            for state in found.states
        )
        return OperatorDiff(one, other, tuple(states))

    def _states(
        self, one: OperatorSnapshot, other: OperatorSnapshot, name: str, before: StateSnapshot | None,
        after: StateSnapshot | None,
    ) -> StateDiff:  # fmt: skip
        found = StateDiff(name, before, after)
        if before is None or after is None:
            some = before or after
            assert some is not None, "a state is on one side at least"
            sides = before or replace(some, files=()), after or replace(some, files=())
            return replace(found, entries=tuple(islice(self._differing(one, other, *sides), self._listed)))
        verdict = compare_state(before, after)
        if verdict.kind is not CompatibilityKind.SAME:
            found = replace(found, types=verdict.message)
            if compare_keys(before, after).kind is not CompatibilityKind.SAME:
                return found
        self._say(f"comparing {one.uid or one.name}, state {name}")
        counts, entries = Counter[str](), list[Entry]()
        for entry in self._differing(one, other, before, after):
            counts[entry.sign] += 1
            if len(entries) < self._listed:
                entries.append(entry)
        return replace(found, added=counts["+"], removed=counts["-"], changed=counts["~"], entries=tuple(entries))

    def _differing(
        self, one: OperatorSnapshot, other: OperatorSnapshot, before: StateSnapshot, after: StateSnapshot
    ) -> Iterator[Entry]:
        if before.kind.keyed:
            return self._keyed(one, other, before, after)
        if before.kind is StateKind.BROADCAST:
            return _differing(_copy(self._first, before), _copy(self._second, after))
        return _differing_elements(_elements(self._first, before), _elements(self._second, after))

    def _keyed(
        self, one: OperatorSnapshot, other: OperatorSnapshot, before: StateSnapshot, after: StateSnapshot
    ) -> Iterator[Entry]:
        shared = {_identity(file) for file in before.files} & {_identity(file) for file in after.files} - {None}
        old = KeyGroupReader(self._first, before, [f for f in before.files if _identity(f) not in shared])
        new = KeyGroupReader(self._second, after, [f for f in after.files if _identity(f) not in shared])
        step = math.gcd(one.max_parallelism, other.max_parallelism)
        width = max(1, _WINDOW_ROWS * step // max(old.rows, new.rows, 1))
        for start in range(0, step, width):
            window = range(start, min(start + width, step))
            tables = old.read(_alike(window, step, one)), new.read(_alike(window, step, other))
            if tables[0] is not None and tables[1] is not None and tables[0].equals(tables[1]):
                continue
            yield from _differing(_entries(tables[0], before, self._first), _entries(tables[1], after, self._second))


def _identity(file: StateFile) -> tuple[str, str] | None:
    """What a file that both snapshots may refer to is known by; its rows need no comparison."""
    return (file.path, file.checksum) if file.shared and file.inline is None else None


def _alike(window: range, step: int, operator: OperatorSnapshot) -> list[range]:
    """The key groups of an operator that are in the window modulo the step."""
    return [range(window.start + n, window.stop + n) for n in range(0, operator.max_parallelism, step)]


def _entries(table: pa.Table | None, state: StateSnapshot, snapshot: OpenedSnapshot) -> Entries:
    if table is None:
        return {}
    rows = read_rows(table, state, where=snapshot.location)
    try:
        return _by_owner(rows, state)
    except TypeError:  # keys with lists in them, whose class hashes them in its own way
        return _by_owner(replace(rows, keys=list(map(frozen, rows.keys)), detail=list(map(frozen, rows.detail))), state)


def _by_owner(rows: Rows, state: StateSnapshot) -> Entries:
    namespaces = rows.namespaces or repeat(None)
    match state.kind:
        case StateKind.MAP:
            owners = zip(rows.keys, namespaces, rows.detail, strict=False)
            return dict(zip(owners, rows.content, strict=True))
        case StateKind.TIMERS:
            return dict.fromkeys(zip(rows.keys, namespaces, rows.content, rows.detail, strict=False), ABSENT)
        case _ if rows.detail:
            return rows.lists()
    return dict(zip(zip(rows.keys, namespaces, strict=False), rows.content, strict=True))


def _differing(old: Entries, new: Entries) -> Iterator[Entry]:
    for path, value in old.items():
        if path not in new:
            yield Entry("-", _shown(path), value)
        elif not _same(value, new[path]):
            yield Entry("~", _shown(path), value, new[path])
    for path, value in new.items():
        if path not in old:
            yield Entry("+", _shown(path), new=value)


def _shown(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """A path without a namespace where there is none."""
    return path[:1] + path[2:] if len(path) > 1 and path[1] is None else path


def _copy(snapshot: OpenedSnapshot, state: StateSnapshot) -> Entries:
    """One copy of broadcast state, of which all subtasks have the same."""
    copies = sorted({file.subtask for file in state.files})[:1]
    one = replace(state, files=tuple(file for file in state.files if file.subtask in copies))
    return {
        (key,): value
        for _, table in snapshot.tables(one)
        for rows in (read_rows(table, one, where=snapshot.location),)
        for key, value in zip(rows.detail, rows.content, strict=True)
    }


def _elements(snapshot: OpenedSnapshot, state: StateSnapshot) -> dict[Hashable, list[Any]]:
    """The elements of all subtasks, those that are equal together."""
    found: dict[Hashable, list[Any]] = {}
    for _, table in snapshot.tables(state):
        for element in read_rows(table, state, where=snapshot.location).content:
            found.setdefault(frozen(element), []).append(element)
    return found


def _differing_elements(old: dict[Hashable, list[Any]], new: dict[Hashable, list[Any]]) -> Iterator[Entry]:
    for sign, have, others in (("-", old, new), ("+", new, old)):
        for element, equal in have.items():
            for one in equal[len(others.get(element, ())) :]:
                yield Entry(sign, (one,))


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or frozen(one) == frozen(other)
