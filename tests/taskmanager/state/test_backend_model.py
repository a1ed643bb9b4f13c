"""Any sequence of operations, captures and restores agrees with plain dictionaries, on every backend."""

from __future__ import annotations

import copy
from typing import Any

from against_model import AgainstModel, Model
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from state_rig import ttl
from thoroughness import cases

from millstream.core.records import types as t
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

KEYS: Any = st.one_of(
    st.integers(0, 5), st.sampled_from([1.0, True, "a", "b", None, 2.5]), st.tuples(st.integers(0, 2), st.just("x"))
)
NUMBERS = st.integers(-5, 5)
TTL = 10


class BackendAgainstModel(AgainstModel):
    """One of each kind, and a value that expires."""

    def __init__(self) -> None:
        self.key: Any = "a"
        self.values: dict[Any, list[int]] = {}
        self.lists: dict[Any, list[list[int]]] = {}
        self.maps: dict[Any, dict[int, list[int]]] = {}
        self.sums: dict[Any, int] = {}
        self.short: dict[Any, tuple[int, int]] = {}
        super().__init__()

    def declare(self) -> None:
        backend = self.keyed.backend
        self.value: Any = backend.state(ValueStateDescriptor("value", t.PICKLED))
        self.list: Any = backend.state(ListStateDescriptor("list", list[int]))
        self.map: Any = backend.state(MapStateDescriptor("map", int, list[int]))
        self.sum: Any = backend.state(ReducingStateDescriptor("sum", lambda a, b: a + b, int))
        short = ValueStateDescriptor("short", int)
        short.enable_time_to_live(ttl(TTL).cleanup_incrementally(2).build())
        self.brief: Any = backend.state(short)
        self.keyed.at(self.key)

    def model(self) -> Model:
        return copy.deepcopy({"value": self.values, "list": self.lists, "map": self.maps, "sum": self.sums})

    def adopt(self, model: Model) -> None:
        self.values, self.lists, self.maps, self.sums = (model[n] for n in ("value", "list", "map", "sum"))
        self.short = {}

    def restorable(self, name: str) -> bool:
        return name != "short"  # expiring values are as of now

    @rule(key=KEYS)
    def another_key(self, key: Any) -> None:
        self.key = key
        self.keyed.at(key)

    @rule(number=NUMBERS)
    def update(self, number: int) -> None:
        self.value.update([number])
        self.values[self.key] = [number]

    @rule(number=NUMBERS)
    def change(self, number: int) -> None:
        found = self.value.value()
        assert found == self.values.get(self.key)
        if found is not None:
            found.append(number)
            self.value.update(found)
            self.values[self.key].append(number)

    @rule()
    def clear_all(self) -> None:
        for state, model in (
            (self.value, self.values), (self.list, self.lists), (self.map, self.maps), (self.sum, self.sums),
            (self.brief, self.short),
        ):  # fmt: skip
            state.clear()
            model.pop(self.key, None)  # type: ignore[attr-defined]  # all of them are dictionaries

    @rule(number=NUMBERS)
    def append(self, number: int) -> None:
        self.list.add([number])
        self.lists.setdefault(self.key, []).append([number])

    @rule(number=NUMBERS)
    def change_an_element(self, number: int) -> None:
        found = self.list.get()
        assert found == self.lists.get(self.key, [])
        if found:
            found[0].append(number)
            self.list.update(found)
            self.lists[self.key][0].append(number)

    @rule(key=NUMBERS, number=NUMBERS)
    def put(self, key: int, number: int) -> None:
        self.map.put(key, [number])
        self.maps.setdefault(self.key, {})[key] = [number]

    @rule(key=NUMBERS)
    def change_an_entry(self, key: int) -> None:
        found = self.map.get(key)
        assert found == self.maps.get(self.key, {}).get(key)
        if found is not None:
            found.append(7)
            self.map.put(key, found)
            self.maps[self.key][key].append(7)

    @rule(key=NUMBERS)
    def remove(self, key: int) -> None:
        self.map.remove(key)
        model = self.maps.get(self.key, {})
        model.pop(key, None)
        if not model:
            self.maps.pop(self.key, None)
        assert dict(self.map.items()) == model

    @rule(number=NUMBERS)
    def add(self, number: int) -> None:
        self.sum.add(number)
        self.sums[self.key] = self.sums.get(self.key, 0) + number

    @rule(number=NUMBERS)
    def write_briefly(self, number: int) -> None:
        self.brief.update(number)
        self.short[self.key] = (number, self.keyed.clock.now_ms() + TTL * 1000)

    @rule(seconds=st.integers(1, 6))
    def time_passes(self, seconds: int) -> None:
        self.keyed.clock.advance(seconds)

    @rule()
    def read_briefly(self) -> None:
        number, deadline = self.short.get(self.key, (None, 0))
        assert self.brief.value() == (number if deadline > self.keyed.clock.now_ms() else None)

    def teardown(self) -> None:
        self.look_at_everything()
        super().teardown()

    @rule()
    def look_at_everything(self) -> None:
        """Not after every step: reading copies values away from captures, which only changes should do."""
        for key in {*self.values, *self.lists, *self.maps, *self.sums, self.key}:
            self.keyed.at(key)
            assert self.value.value() == self.values.get(key)
            assert self.list.get() == self.lists.get(key, [])
            assert dict(self.map.items()) == self.maps.get(key, {})
            assert self.sum.get() == self.sums.get(key)
        self.keyed.at(self.key)


class BackendOfReferences(BackendAgainstModel):
    """On the heap, changes in place take effect, and captures are unaffected nevertheless."""

    @rule(number=NUMBERS)
    def change_in_place(self, number: int) -> None:
        for found, model in (
            (self.value.value(), self.values.get(self.key)),
            (next(iter(self.list.get()), None), next(iter(self.lists.get(self.key, ())), None)),
            (next(iter(self.map.values()), None), next(iter(self.maps.get(self.key, {}).values()), None)),
        ):
            assert found == model
            if found is not None and model is not None:
                found.append(number)
                model.append(number)


class BytesBackendAgainstModel(BackendAgainstModel):
    backend = "bytes"


TestBackendOfReferences = BackendOfReferences.TestCase
TestBackendOfReferences.settings = settings(max_examples=cases(60), stateful_step_count=40)
TestBytesBackendAgainstModel = BytesBackendAgainstModel.TestCase
TestBytesBackendAgainstModel.settings = settings(max_examples=cases(20), stateful_step_count=40)
