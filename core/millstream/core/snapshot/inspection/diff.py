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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.snapshot.fitting.compatibility import CompatibilityKind, compare_keys, compare_state
from millstream.core.snapshot.fitting.fit import match_operators
from millstream.core.snapshot.inspection.opened import KeyGroupReader, OpenedSnapshot
from millstream.core.snapshot.metadata.model import (
    OperatorSnapshot,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
)
from millstream.core.snapshot.tables.restore import Rows, frozen, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW_ROWS = 64 * 1024

Say = Callable[[str], None]
Entries = Mapping[Any, Any]


class Absent(Enum):
    """Stands for a value that does not exist."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that differs: `+` only in the second snapshot, `-` only in the first, `~` in both.

    `path` names it: the key, then the namespace and the key in a map where there are such; or an element itself.
    `old` and `new` are its values, ABSENT on a side that does not have it, and where the path is the whole difference.
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

    def with_entries(self, entries: Iterable[Entry], listed: int) -> StateDiff:
        """Counts the entries that differ, and lists the first; reads only those of a state that only one side has."""
        if self.first is None or self.second is None:
            return replace(self, entries=tuple(islice(entries, listed)))
        counts, first = Counter[str](), list[Entry]()
        for entry in entries:
            counts[entry.sign] += 1
            if len(first) < listed:
                first.append(entry)
        return replace(self, added=counts["+"], removed=counts["-"], changed=counts["~"], entries=tuple(first))


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

    def with_states(self, made: Callable[[OperatorDiff, StateDiff], StateDiff]) -> SnapshotDiff:
        """Returns the difference with every state replaced by the result of the function."""
        operators = (
            replace(operator, states=tuple(made(operator, state) for state in operator.states))
            for operator in self.operators
        )
        return replace(self, operators=tuple(operators))


def diff_snapshots(
    first: OpenedSnapshot, second: OpenedSnapshot, listed: int = 0, say: Say = lambda message: None
) -> SnapshotDiff:
    """Compares two snapshots. Up to `listed` entries that differ are named for each state."""

    def compared(operator: OperatorDiff, state: StateDiff) -> StateDiff:
        if state.first is not None and state.second is not None:
            say(f"comparing {operator.operator.uid or operator.operator.name}, state {state.name}")
        return state.with_entries(StateComparison(first, second, operator, state).differing(), listed)

    return outline(first.metadata, second.metadata).with_states(compared)


def outline(first: SnapshotMetadata, second: SnapshotMetadata) -> SnapshotDiff:
    """Matches the operators, states and types of both sides, without comparing entries."""
    operators = first.operators
    matched = match_operators(second, operators)
    met = {other.operator_id for other in matched if other is not None}
    new = (o for o in second.operators if o.operator_id not in met)
    names = sorted({*first.properties, *second.properties})
    return SnapshotDiff(
        (*map(_operators, operators, matched), *(_operators(None, operator) for operator in new)),
        tuple(name for name in names if first.properties.get(name) != second.properties.get(name)),
    )


def _operators(one: OperatorSnapshot | None, other: OperatorSnapshot | None) -> OperatorDiff:
    before, after = ({} if side is None else {state.name: state for state in side.states} for side in (one, other))
    names = [*before, *(name for name in after if name not in before)]
    return OperatorDiff(one, other, tuple(_states(name, before.get(name), after.get(name)) for name in names))


def _states(name: str, before: StateSnapshot | None, after: StateSnapshot | None) -> StateDiff:
    found = StateDiff(name, before, after)
    if before is None or after is None:
        return found
    verdict = compare_state(before, after)
    return found if verdict.kind is CompatibilityKind.SAME else replace(found, types=verdict.message)


class StateComparison:
    """The entries of one state, on both sides or on the one that has it.

    Keyed state is compared in windows, numbered from 0 to `windows`, each by itself: several processes can share the
    work. State without keys is one window.
    """

    def __init__(
        self, first: OpenedSnapshot, second: OpenedSnapshot, operator: OperatorDiff, state: StateDiff,
        window_rows: int | None = None,
    ) -> None:  # fmt: skip
        """`window_rows` is the number of rows compared at a time, the same for all that share the work."""
        some = state.first or state.second
        assert some is not None, "a state is on one side at least"
        self._before, self._after = state.first or replace(some, files=()), state.second or replace(some, files=())
        self._first, self._second = first, second
        self._one, self._other = operator.first or operator.operator, operator.second or operator.operator
        shared = _identities(self._before) & _identities(self._after) - {None}
        self._old = KeyGroupReader(first, self._before, [f for f in self._before.files if _identity(f) not in shared])
        self._new = KeyGroupReader(second, self._after, [f for f in self._after.files if _identity(f) not in shared])
        self._step = math.gcd(self._one.max_parallelism, self._other.max_parallelism)
        rows = max(self._old.rows, self._new.rows, 1)
        self._width = max(1, (window_rows or WINDOW_ROWS) * self._step // rows)

    @property
    def windows(self) -> int:
        """The number of windows; 0 if the keys of the two sides are not comparable."""
        if compare_keys(self._before, self._after).kind is not CompatibilityKind.SAME:
            return 0
        return math.ceil(self._step / self._width) if self._before.kind.keyed else 1

    def differing(self, windows: range | None = None) -> Iterator[Entry]:
        """Iterates over the entries that differ, in some windows or in all."""
        chosen = range(self.windows) if windows is None else windows
        if self._before.kind.keyed:
            yield from chain.from_iterable(map(self._window, chosen))
        elif not chosen:
            return
        elif self._before.kind is StateKind.BROADCAST:
            yield from _differing(_copy(self._first, self._before), _copy(self._second, self._after))
        else:
            elements = _elements(self._first, self._before), _elements(self._second, self._after)
            yield from _differing_elements(*elements)

    def _window(self, number: int) -> Iterator[Entry]:
        start = number * self._width
        window = range(start, min(start + self._width, self._step))
        tables = (
            self._old.read(_alike(window, self._step, self._one)),
            self._new.read(_alike(window, self._step, self._other)),
        )
        if tables[0] is not None and tables[1] is not None and tables[0].equals(tables[1]):
            return iter(())
        return _differing(
            _entries(tables[0], self._before, self._first), _entries(tables[1], self._after, self._second)
        )


def _identities(state: StateSnapshot) -> set[tuple[str, str] | None]:
    return set(map(_identity, state.files))


def _identity(file: StateFile) -> tuple[str, str] | None:
    """The identity of a file that both snapshots may refer to; its rows need no comparison."""
    return (file.path, file.checksum) if file.shared and file.inline is None else None


def _alike(window: range, step: int, operator: OperatorSnapshot) -> list[range]:
    """Returns the key groups of an operator that belong to the window."""
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
