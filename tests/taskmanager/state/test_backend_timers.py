"""Timers, for every backend: in order, each once, and with their key groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from against_model import AgainstModel, Model
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from state_rig import BACKENDS, GROUPS, DecodedState, Keyed, captured, decoded, state_of, stored_table
from thoroughness import cases

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot.tables.restore import Rows
from millstream.datastream.state import StateAccessError, ValueStateDescriptor
from millstream.taskmanager.worker.checkpointing.restoring import ReadFile, StoredState
from millstream.taskmanager.worker.state.capturing.captured import CapturedKeyedState, CapturedTable
from millstream.taskmanager.worker.state.heap.timers import HeapTimerQueue
from millstream.taskmanager.worker.state.timers import Timer

WINDOW = t.TupleType((t.LONG, t.LONG))
END = 1 << 62


def fired(queue: Any, until: int = END) -> list[Timer]:
    return list(queue.due(until))


def test_domains_and_names_do_not_mix(keyed: Keyed) -> None:
    timers = keyed.backend.timers("timers")
    keyed.at("a")
    timers.event.register(5)
    keyed.backend.timers("others").event.register(6)
    assert timers.processing.next_timestamp() is None
    keyed.backend.timers("timers").processing.register(4)
    assert fired(timers.processing) == [Timer(4, "a")]
    assert fired(timers.event) == [Timer(5, "a")]
    assert keyed.backend.timers("others").event.next_timestamp() == 6


def test_timers_registered_and_deleted_while_timers_fire_take_effect(keyed: Keyed) -> None:
    queue = keyed.backend.timers("timers").event
    for timestamp in (5, 7, 8):
        keyed.at("a")
        queue.register(timestamp)
    seen = []
    for timer in queue.due(8):
        seen.append(timer.timestamp)
        if len(seen) == 2:
            break
        keyed.at(timer.key)
        queue.delete(7)
        for timestamp in (6, 5, 9):
            queue.register(timestamp)
    assert seen == [5, 5]
    assert [timer.timestamp for timer in fired(queue)] == [6, 8, 9]


def test_a_capture_between_two_timers_that_fire(keyed: Keyed) -> None:
    queue = keyed.backend.timers("timers").event
    queue.register_all([5] * 4, ["a", "b", "c", "d"])
    firing = queue.due(5)
    seen = {next(firing).key, next(firing).key}
    table = captured(keyed.backend, "timers")
    assert {key for _, _, key, _ in stored(table)} == {*"abcd"} - seen
    seen |= {timer.key for timer in firing}
    assert seen == {*"abcd"}
    assert len(stored(table)) == 2


def test_batches(keyed: Keyed) -> None:
    queue = keyed.backend.timers("timers", WINDOW).event
    keys = ["a", "b", "a", "a", float("nan"), float("nan")]
    windows = [(0, 5), (0, 5), (0, 5), (0, 9), (0, 5), (0, 5)]
    queue.register_all([5, 5, 5, 9, 5, 5], keys, windows)
    queue.delete_all([5, 9], ["b", "zzz"], [(0, 5), (0, 9)])
    assert queue.take_due(4) is None
    due = queue.take_due(9)
    assert due.timestamp == 5
    assert sorted(map(repr, due.keys)) == ["'a'", "nan"]
    assert due.namespaces == [(0, 5), (0, 5)]
    assert queue.take_due(9) == (9, ["a"], [(0, 9)])
    assert queue.take_due(9) is None
    keyed.at("a")
    queue.register(10, (5, 10))
    queue.register(10, (0, 10))
    queue.delete(10, (5, 10))
    assert fired(queue) == [Timer(10, "a", (0, 10))]
    plain = keyed.backend.timers("plain").event
    plain.register_all([1, 1], [1, 1.0])
    assert plain.take_due(1) == (1, [1], None)


def test_without_a_key_timers_raise(keyed: Keyed) -> None:
    queue = keyed.backend.timers("timers").event
    for use in (queue.register, queue.delete):
        with pytest.raises(StateAccessError, match="without a key"):
            use(5)


def test_timers_have_names_like_states(keyed: Keyed) -> None:
    keyed.backend.state(ValueStateDescriptor("s", int))
    keyed.backend.timers("timers", WINDOW)
    with pytest.raises(StateAccessError, match="state 's' is declared twice, as value state of Long and as timers"):
        keyed.backend.timers("s")
    with pytest.raises(StateAccessError, match=r"'timers' is declared twice, as timers for each .* and as timers: "):
        keyed.backend.timers("timers")


@pytest.mark.parametrize("namespaced", [False, True])
def test_timers_are_restored_at_another_parallelism(keyed: Keyed, namespaced: bool) -> None:
    keyed = Keyed(keyed.make, t.STRING)
    kind = WINDOW if namespaced else None
    timers = keyed.backend.timers("timers", kind)
    names = [f"k{n}" for n in range(40)]
    windows = [(n, n + 5) for n in range(40)] if namespaced else None
    times = [n // 3 for n in range(40)]
    timers.event.register_all(times, names, windows)
    timers.processing.register_all(times[:7], names[:7], windows and windows[:7])
    arrow, described = stored_table(captured(keyed.backend, "timers"))
    part = StoredState(described, (ReadFile("file", arrow),))
    expected = [sorted(fired(queue)) for queue in (timers.event, timers.processing)]
    for ranges in ([range(GROUPS)], [range(5), range(5, GROUPS)]):
        found: list[list[Timer]] = [[], []]
        for owned in ranges:
            other = keyed.again(owned)
            other.backend.restore([part])
            again = other.backend.timers("timers", kind)
            for every, queue in zip(found, (again.event, again.processing), strict=True):
                own = fired(queue)
                assert [timer.timestamp for timer in own] == sorted(timer.timestamp for timer in own)
                assert all(key_group_of(timer.key, GROUPS) in owned for timer in own)
                every += own
        assert list(map(sorted, found)) == expected


def test_unrequested_timers_are_kept(keyed: Keyed) -> None:
    keyed.backend.timers("old", t.LONG).event.register_all([5, 6], ["a", "b"], [1, 2])
    other = keyed.again()
    other.backend.restore([decoded(captured(keyed.backend, "old"))])
    kept = captured(other.backend, "old")
    assert stored(kept) == {("event", 5, "a", 1), ("event", 6, "b", 2)}
    assert fired(other.backend.timers("old", t.LONG).event) == [Timer(5, "a", 1), Timer(6, "b", 2)]


def stored(table: CapturedTable, key_groups: Any = None) -> set[Any]:
    rows = decoded(table, key_groups).decoded
    namespaces = rows.namespaces or [None] * len(rows.keys)
    found = list(zip(rows.detail, rows.content, rows.keys, namespaces, strict=True))
    assert len(found) == len(set(found))
    return set(found)


def test_an_unknown_domain_is_refused() -> None:
    keyed = Keyed(BACKENDS["hashmap"])
    keyed.backend.timers("timers")
    rows = Rows([5], ["a"], detail=["lunar"], key_groups=[key_group_of("a", GROUPS)])
    other = keyed.again()
    other.backend.restore([DecodedState(captured(keyed.backend, "timers").declaration, rows)])
    with pytest.raises(StateAccessError, match="state 'timers' holds timers of the domain 'lunar'"):
        other.backend.timers("timers")


def test_timers_that_are_moved_repeatedly_do_not_accumulate() -> None:
    """A timeout that every record postpones."""
    keyed = Keyed(BACKENDS["hashmap"])
    queue = keyed.at("a").backend.timers("timers").processing
    assert isinstance(queue, HeapTimerQueue)
    for timestamp in range(10_000):
        queue.register(timestamp)
        queue.delete(timestamp - 1)
    assert len(queue._order) < 200
    assert fired(queue) == [Timer(9_999, "a")]


KEYS: Any = st.sampled_from(["a", "b", 1, 1.0, (1, "x"), None])
TIMES = st.integers(-3, 12) | st.just(1 << 40)


class TimersAgainstModel(AgainstModel):
    """Two domains, with namespaces, captured and restored by key groups."""

    def __init__(self) -> None:
        self.timers: dict[str, set[tuple[int, Any, int]]] = defaultdict(set)
        super().__init__()

    def declare(self) -> None:
        timers = self.keyed.backend.timers("timers", t.LONG)
        self.queues: dict[str, Any] = {"event": timers.event, "processing": timers.processing}

    def model(self) -> Model:
        return {"timers": {(domain, *timer): True for domain, timers in self.timers.items() for timer in timers}}

    def adopt(self, model: Model) -> None:
        self.timers = defaultdict(set)
        for domain, *timer in model["timers"]:
            self.timers[domain].add(tuple(timer))

    def key_of(self, entry: Any) -> Any:
        return entry[2]

    def check(self, taken: CapturedKeyedState, model: Model) -> None:
        assert stored(state_of(taken, "timers"), range(GROUPS)) == set(model["timers"])

    @rule(domain=st.sampled_from(["event", "processing"]), time=TIMES, key=KEYS, namespace=st.integers(0, 1))
    def register(self, domain: str, time: int, key: Any, namespace: int) -> None:
        self.keyed.at(key)
        self.queues[domain].register(time, namespace)
        self.timers[domain].add((time, key, namespace))

    @rule(domain=st.sampled_from(["event", "processing"]), time=TIMES, key=KEYS, known=st.booleans(), data=st.data())
    def delete(self, domain: str, time: int, key: Any, known: bool, data: Any) -> None:
        timer = (time, key, 0)
        if known and self.timers[domain]:
            timer = data.draw(st.sampled_from(sorted(self.timers[domain], key=repr)))
        time, key, namespace = timer
        self.keyed.at(key)
        self.queues[domain].delete(time, namespace)
        self.timers[domain].discard(timer)

    @rule(times=st.lists(TIMES, max_size=5), keys=st.lists(KEYS, min_size=5), registers=st.booleans())
    def batch(self, times: list[int], keys: list[Any], registers: bool) -> None:
        keys = keys[: len(times)]
        queue, model = self.queues["event"], self.timers["event"]
        (queue.register_all if registers else queue.delete_all)(times, keys, [0] * len(times))
        for time, key in zip(times, keys, strict=True):
            (model.add if registers else model.discard)((time, key, 0))

    @rule(until=TIMES, most=st.integers(1, 4))
    def some_fire(self, until: int, most: int) -> None:
        model, last = self.timers["processing"], -(1 << 62)
        for timer in self.queues["processing"].due(until):
            assert timer.timestamp == min(time for time, _, _ in model)
            assert last <= timer.timestamp <= until
            model.remove(tuple(timer))
            last, most = timer.timestamp, most - 1
            if not most:
                return
        assert not [time for time, _, _ in model if time <= until]

    @rule(until=TIMES)
    def all_fire(self, until: int) -> None:
        model = self.timers["event"]
        while (due := self.queues["event"].take_due(until)) is not None:
            first = {timer for timer in model if timer[0] == min(time for time, _, _ in model)}
            assert {(due.timestamp, *entry) for entry in zip(due.keys, due.namespaces, strict=True)} == first
            model -= first
        assert not [time for time, _, _ in model if time <= until]

    @invariant()
    def the_next_one_is_known(self) -> None:
        for domain, queue in self.queues.items():
            assert queue.next_timestamp() == min((time for time, _, _ in self.timers[domain]), default=None)


class BytesTimersAgainstModel(TimersAgainstModel):
    backend = "bytes"


TestTimers = TimersAgainstModel.TestCase
TestTimers.settings = settings(max_examples=cases(40), stateful_step_count=40)
TestBytesTimers = BytesTimersAgainstModel.TestCase
TestBytesTimers.settings = settings(max_examples=cases(20), stateful_step_count=30)


def test_owners_of_timers_are_counted_once_and_only_up_to_the_limit(keyed: Keyed) -> None:
    queue = keyed.backend.timers("windows", WINDOW).event
    assert queue.owners(10) == 0
    for key, timestamp, window in (("a", 5, (0, 6)), ("a", 9, (0, 6)), ("b", 5, (0, 6)), ("b", 11, (6, 12))):
        keyed.at(key)
        queue.register(timestamp, window)
    assert (queue.owners(10), queue.owners(2)) == (3, 2)
    assert len(fired(queue, 5)) == 2
    assert queue.owners(10) == 2
