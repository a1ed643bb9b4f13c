"""Keyed state in jobs, in this process and in slot workers of their own, at several parallelisms."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from bytes_backend import BytesStateBackend
from state_rig import Average

from millstream.common import Configuration, JobExecutionError, Types
from millstream.datastream import (
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.taskmanager.worker.state.backends import STATE_BACKENDS

TEXT = "to be or not to be that is the question whether tis nobler in the mind to be or not"
WORDS = TEXT.split() * 20


@dataclass
class Seen:
    words: int
    longest: str


@pytest.fixture(
    params=[(1, True, True), (3, True, False), (2, False, False)], ids=["1 here, in bytes", "3 here", "2 in workers"]
)
def env(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StreamExecutionEnvironment:
    parallelism, here, in_bytes = request.param
    if in_bytes:
        monkeypatch.setitem(STATE_BACKENDS, "hashmap", lambda _: BytesStateBackend())  # type: ignore[arg-type]  # a dict
    options = Configuration({"execution.local.in-process": str(here).lower()})
    made = StreamExecutionEnvironment.get_execution_environment(options)
    made.set_parallelism(parallelism)
    return made


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_state("seen", Seen)

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        seen = self.seen.value() or Seen(0, "")
        seen.words += 1
        seen.longest = max(seen.longest, value, key=len)
        self.seen.update(seen)
        yield ctx.get_current_key(), count, seen.words


@pytest.mark.process
def test_counts(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(WORDS, Types.STRING()).rebalance()
    results = collected(words.key_by(lambda w: w, Types.STRING()).process(Count()))
    best: dict[str, int] = defaultdict(int)
    for word, count, seen in results:
        assert count == seen
        best[word] = max(best[word], count)
    assert best == Counter(WORDS)


class Gather(KeyedProcessFunction):
    """Every kind of state at once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.by_digit = runtime_context.get_map_state(MapStateDescriptor("by digit", Types.STRING(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state("mean", Average(), list[float])

    def process_element(self, value: int, ctx: Any) -> Iterable[Any]:
        self.all.add(value)
        digit = str(value % 10)
        self.by_digit[digit] = (self.by_digit[digit] or 0) + 1
        self.sum.add(value)
        self.mean.add(value)
        if len(self.all.get()) == 100:
            yield ctx.get_current_key(), self.all.get(), dict(self.by_digit.items()), self.sum.get(), self.mean.get()


@pytest.mark.process
def test_lists_maps_sums_and_means(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(0, 699)
    results = {key: rest for key, *rest in collected(numbers.key_by(lambda n: n % 7).process(Gather()))}
    for key in range(7):
        mine = [n for n in range(700) if n % 7 == key]
        found, digits, total, mean = results[key]
        assert sorted(found) == mine
        assert digits == Counter(str(n % 10) for n in mine)
        assert (total, mean) == (sum(mine), sum(mine) / 100)


class Expiring(KeyedProcessFunction):
    """Waits for its state to expire: the clock of a job is the system clock."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("short", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(milliseconds=50)).build())
        self.short = runtime_context.get_state(descriptor)
        self.long = runtime_context.get_state("long", int)

    def process_element(self, value: int, ctx: Any) -> Iterable[Any]:
        self.short.update(value)
        self.long.update(value)
        deadline = time.monotonic() + 30
        while self.short.value() is not None and time.monotonic() < deadline:
            pass
        yield self.short.value(), self.long.value()


@pytest.mark.process
def test_state_expires(env: StreamExecutionEnvironment) -> None:
    results = collected(env.from_collection([1, 2, 3]).key_by(lambda n: n).process(Expiring()))
    assert sorted(results, key=str) == [(None, 1), (None, 2), (None, 3)]


class Numbered(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state("count", int)

    def map(self, value: str) -> tuple[str, int]:
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value() or 0


class First(FilterFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state("seen", bool)

    def filter(self, value: str) -> bool:
        first = not self.seen.value()
        self.seen.update(True)
        return first


class Pairs(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state("waiting", str)

    def flat_map(self, value: str) -> Iterator[list[str]]:
        self.waiting.add(value)
        if len(self.waiting.get()) == 2:
            yield self.waiting.get()
            self.waiting.clear()


@pytest.mark.process
def test_rich_functions_on_a_keyed_stream(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection(WORDS, Types.STRING()).key_by(lambda w: w)
    numbered = collected(keyed.map(Numbered()))
    assert sorted(numbered) == sorted((w, n + 1) for w, c in Counter(WORDS).items() for n in range(c))
    keyed = env.from_collection(WORDS, Types.STRING()).key_by(lambda w: w)
    assert sorted(collected(keyed.filter(First()))) == sorted(set(WORDS))
    keyed = env.from_collection(WORDS, Types.STRING()).key_by(lambda w: w)
    pairs = collected(keyed.flat_map(Pairs()))
    assert Counter(tuple(pair) for pair in pairs) == {(w, w): c // 2 for w, c in Counter(WORDS).items()}


class Called(ReduceFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls = runtime_context.get_state("calls", int)

    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], self.calls.value() or 0


@pytest.mark.process
def test_a_rich_reduce_function_has_state(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([(word, 0) for word in WORDS], Types.TUPLE([Types.STRING(), Types.LONG()]))
    results = collected(pairs.key_by(lambda pair: pair[0]).reduce(Called()))
    assert sorted(results) == sorted((w, n) for w, c in Counter(WORDS).items() for n in range(c))


class ReadsInOpen(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state("count", int).value()

    def process_element(self, value: Any, ctx: Any) -> None:
        return None


def here() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.local.in-process": "true"}))


def test_using_state_in_open_is_an_error() -> None:
    stream = here().from_collection([1]).key_by(lambda n: n).process(ReadsInOpen())
    with pytest.raises(JobExecutionError, match="keyed state was used without a key"):
        collected(stream)


def test_state_on_a_stream_without_keys_is_an_error() -> None:
    with pytest.raises(JobExecutionError, match="'count' requires a keyed stream, but the input of this operator is"):
        collected(here().from_collection(["a"]).map(Numbered()))
