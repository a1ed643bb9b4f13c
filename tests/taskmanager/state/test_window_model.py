"""State of windows compared with dictionaries, on every backend: namespaces, batches, merges, and time-to-live."""

from __future__ import annotations

import copy
from typing import Any

from against_model import AgainstModel, Model
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from state_rig import GROUPS, Average, contents, state_of, ttl
from thoroughness import cases

from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream.state import AggregatingStateDescriptor, ListStateDescriptor, MapStateDescriptor
from millstream.taskmanager.worker.state.capturing.captured import CapturedKeyedState
from millstream.taskmanager.worker.state.table import MISSING

KEYS: Any = st.sampled_from(["a", "b", 1, 1.0, None, (1, "x")])
WINDOWS: Any = st.sampled_from([(0, 5), (5, 10), (0, 10)])
NUMBERS = st.integers(-3, 3)
PLACES = st.lists(st.tuples(KEYS, WINDOWS, NUMBERS), max_size=6)
TTL = 10
Entry = tuple[Any, tuple[int, int]]


class WindowsAgainstModel(AgainstModel):
    """An accumulator that is accessed in batches and singly; a list and a map that expire."""

    def __init__(self) -> None:
        self.sums: dict[Entry, list[int]] = {}
        self.lists: dict[Entry, list[tuple[int, int]]] = {}
        self.maps: dict[Entry, dict[int, tuple[int, int]]] = {}
        super().__init__()

    def declare(self) -> None:
        window, backend = t.TupleType((t.LONG, t.LONG)), self.keyed.backend
        self.table = backend.table("sum", t.ListType(t.LONG), StateKind.AGGREGATING, window)
        self.sum: Any = backend.state(AggregatingStateDescriptor("sum", Average(), list[int]), window)
        config = ttl(TTL).cleanup_incrementally(1).build()
        listed, mapped = ListStateDescriptor("list", int), MapStateDescriptor("map", int, int)
        for descriptor in (listed, mapped):
            descriptor.enable_time_to_live(config)
        self.list: Any = backend.state(listed, window)
        self.map: Any = backend.state(mapped, window)

    def _at(self, key: Any, window: Any) -> Entry:
        self.keyed.at(key)
        for state in (self.sum, self.list, self.map):
            state.set_namespace(window)
        return key, window

    def _deadline(self) -> int:
        return self.keyed.clock.now_ms() + TTL * 1000

    def _alive(self, pairs: list[tuple[int, int]]) -> list[int]:
        return [value for deadline, value in pairs if deadline > self.keyed.clock.now_ms()]

    @rule(places=PLACES)
    def fold(self, places: list[Any]) -> None:
        expected = []
        for key, window, number in places:
            before = self.sums.get((key, window), [0, 0])
            expected.append([before[0] + number, before[1] + 1])
            self.sums[key, window] = expected[-1]
        returned = self.table.fold(
            [key for key, _, _ in places], iter([number for _, _, number in places]),
            lambda total, number: [total[0] + number, total[1] + 1],
            namespaces=[window for _, window, _ in places], first=lambda number: [number, 1],
        )  # fmt: skip
        assert returned == expected

    @rule(places=PLACES)
    def read_and_write(self, places: list[Any]) -> None:
        """As an operator that processes whole batches: some entries are removed, others get a value."""
        entries = list(dict.fromkeys((key, window) for key, window, _ in places))
        keys, windows = [key for key, _ in entries], [window for _, window in entries]
        found = self.table.get_all(keys, windows)
        assert found == [self.sums.get(entry, MISSING) for entry in entries]
        written = [MISSING if number % 3 == 0 else [number, 9] for _, _, number in places[: len(entries)]]
        self.table.put_all(keys, written, windows)
        for entry, value in zip(entries, written, strict=True):
            self.sums.pop(entry, None)
            if value is not MISSING:
                self.sums[entry] = list(value)  # the state modifies its own value in place

    @rule(keys=st.lists(KEYS, unique=True), window=WINDOWS)
    def fire(self, keys: list[Any], window: Any) -> None:
        """A window ends: its contents are read and removed."""
        taken = self.table.take_all(keys, [window] * len(keys))
        assert taken == [self.sums.pop((key, window), MISSING) for key in keys]

    @rule(key=KEYS, window=WINDOWS, number=NUMBERS)
    def add(self, key: Any, window: Any, number: int) -> None:
        entry = self._at(key, window)
        self.sum.add(number)
        before = self.sums.get(entry, [0, 0])
        self.sums[entry] = [before[0] + number, before[1] + 1]
        self.list.add(number)
        self.lists.setdefault(entry, []).append((self._deadline(), number))
        self.map.put(number, number)
        self.maps.setdefault(entry, {})[number] = (self._deadline(), number)

    @rule(key=KEYS, windows=st.lists(WINDOWS, unique=True, min_size=1))
    def merge(self, key: Any, windows: list[Any]) -> None:
        target, *sources = windows
        self._at(key, target)
        for state in (self.sum, self.list):
            state.merge_namespaces(target, sources)
        for source in sources:
            total = self.sums.pop((key, source), None)
            if total is not None:
                before = self.sums.get((key, target), [0, 0])
                self.sums[key, target] = [before[0] + total[0], before[1] + total[1]]
            self.lists.setdefault((key, target), []).extend(self.lists.pop((key, source), []))

    @rule(key=KEYS, window=WINDOWS)
    def clear(self, key: Any, window: Any) -> None:
        entry = self._at(key, window)
        for state, model in ((self.sum, self.sums), (self.list, self.lists), (self.map, self.maps)):
            state.clear()
            model.pop(entry, None)  # type: ignore[attr-defined]  # all of them are dictionaries

    @rule(key=KEYS, window=WINDOWS)
    def look(self, key: Any, window: Any) -> None:
        entry = self._at(key, window)
        total = self.sums.get(entry)
        assert self.sum.get() == (None if total is None else total[0] / total[1])
        assert self.list.get() == self._alive(self.lists.get(entry, []))
        assert sorted(self.map.values()) == sorted(self._alive(list(self.maps.get(entry, {}).values())))

    @rule(seconds=st.integers(1, 6))
    def time_passes(self, seconds: int) -> None:
        self.keyed.clock.advance(seconds)

    def model(self) -> Model:
        return copy.deepcopy({"sum": self.sums, "list": self.lists, "map": self.maps})

    def adopt(self, model: Model) -> None:
        self.sums, self.lists, self.maps = (model[name] for name in ("sum", "list", "map"))

    def key_of(self, entry: Entry) -> Any:
        return entry[0]

    def check(self, taken: CapturedKeyedState, model: Model) -> None:
        """Expiring state is checked when it is restored: deadlines are unchanged."""
        assert contents(state_of(taken, "sum"), range(GROUPS)) == model["sum"]

    def teardown(self) -> None:
        super().teardown()
        if not self.captures:
            for key, window in {*self.sums, *self.lists, *self.maps}:
                self.look(key, window)


class BytesWindowsAgainstModel(WindowsAgainstModel):
    backend = "bytes"


TestWindows = WindowsAgainstModel.TestCase
TestWindows.settings = settings(max_examples=cases(40), stateful_step_count=40)
TestBytesWindows = BytesWindowsAgainstModel.TestCase
TestBytesWindows.settings = settings(max_examples=cases(20), stateful_step_count=30)
