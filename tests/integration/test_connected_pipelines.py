"""Two-input pipelines and broadcast rules produce the result of a straightforward computation in plain Python.

At several parallelisms, in this process and in slot workers of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from millstream.common import Configuration, Row, Types
from millstream.core.errors import JobExecutionError
from millstream.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

pytestmark = pytest.mark.slow

N = 3_000
KEYS = 17
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
SECOND = OutputTag("second", Types.LONG())
PERSON = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])

in_process = {"execution.local.in-process": "true"}
RUNS = [
    pytest.param(parallelism, options, id=f"{name} at {parallelism}", marks=marks)
    for name, options, marks in (("in process", in_process, ()), ("workers", {}, pytest.mark.process))
    for parallelism in (1, 2, 3)
]


@dataclass
class Order:
    person: int
    amount: int


class Tagged(CoMapFunction):
    """Drops every tenth number: None is not a record."""

    def map1(self, value: int) -> tuple[str, int] | None:
        return ("n", value) if value % 10 else None

    def map2(self, value: str) -> tuple[str, int]:
        return ("s", len(value))


def mapped(env: StreamExecutionEnvironment) -> DataStream:
    texts = env.from_collection(["a" * n for n in range(50)], Types.STRING())
    return env.from_sequence(1, N).connect(texts).map(Tagged())


class Words(CoFlatMapFunction):
    def flat_map1(self, value: str) -> Iterator[str]:
        yield from value.split()

    def flat_map2(self, value: int) -> list[str] | None:
        return [str(value)] * 2 if value % 2 else None


def flat_mapped(env: StreamExecutionEnvironment) -> DataStream:
    lines = env.from_collection(["to be", "or not", ""] * 100, Types.STRING()).rebalance()
    return lines.connect(env.from_sequence(1, N)).flat_map(Words()).key_by(lambda w: w).map(lambda w: w)


class Split(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[int]:
        yield value

    def process_element2(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield SECOND, value


def processed(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_sequence(1, N)
    made = numbers.connect(numbers.map(lambda x: -x, output_type=int)).process(Split())
    return made.map(lambda x: ("main", x)).union(made.get_side_output(SECOND).map(lambda x: ("side", x)))


class Join(KeyedCoProcessFunction):
    """Joins by key: records that arrive before their person wait in keyed state, which both sides share."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.person = runtime_context.get_state(ValueStateDescriptor("person", Types.STRING()))
        self.orders = runtime_context.get_list_state(ListStateDescriptor("orders", Types.LONG()))

    def process_element1(self, value: Order, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        assert ctx.get_current_key() == value.person
        name = self.person.value()
        if name is not None:
            yield name, value.amount
        else:
            self.orders.add(value.amount)

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        assert ctx.get_current_key() == value.id
        self.person.update(value.name)
        for amount in self.orders.get():
            yield value.name, amount
        self.orders.clear()


def joined(env: StreamExecutionEnvironment) -> DataStream:
    orders = env.from_sequence(1, N).map(lambda x: Order(x % KEYS, x), output_type=Order)
    people = env.from_sequence(0, KEYS - 1).map(lambda x: Row(id=x, name=f"p{x}"), output_type=PERSON)
    return orders.connect(people).key_by("person", "id").process(Join())


def joined_with_a_union(env: StreamExecutionEnvironment) -> DataStream:
    low = env.from_sequence(1, N // 2).map(lambda x: Order(x % KEYS, x), output_type=Order)
    high = env.from_sequence(N // 2 + 1, N).map(lambda x: Order(x % KEYS, x), output_type=Order)
    people = env.from_sequence(0, KEYS - 1).map(lambda x: Row(id=x, name=f"p{x}"), output_type=PERSON)
    return low.union(high).connect(people).key_by(lambda o: o.person, lambda p: p.id).process(Join())


class Totals(CoMapFunction):
    """A running total of each key over both streams; the sum of both is the key's largest total."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, int))

    def map1(self, value: int) -> tuple[int, int] | None:
        self.total.add(value)
        total = self.total.get()
        return (value % KEYS, total) if total == TOTALS[value % KEYS] else None

    def map2(self, value: int) -> tuple[int, int] | None:
        return self.map1(value)


def totalled(env: StreamExecutionEnvironment) -> DataStream:
    low, high = env.from_sequence(1, N // 2), env.from_sequence(N // 2 + 1, N)
    return low.connect(high).key_by(lambda x: x % KEYS, lambda x: x % KEYS).map(Totals())


class Rules(BroadcastProcessFunction):
    """Keeps records until the last rule has arrived, so that the result does not depend on the order of arrival."""

    def open(self, runtime_context: Any) -> None:
        self.waiting: list[int] = []

    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        if "end" in rules:
            yield from self.apply(value, rules)
        else:
            self.waiting.append(value)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(*value)
        if value[0] == "end":
            for waiting in self.waiting:
                yield from self.apply(waiting, rules)
            self.waiting = []

    def apply(self, value: int, rules: Any) -> Iterator[Any]:
        yield from ((name, value) for name, divisor in rules.items() if divisor and value % divisor == 0)


class KeyedRules(KeyedBroadcastProcessFunction):
    """The same, and the records of each key are counted in keyed state; the last one of each key emits the count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.inner = Rules()
        self.inner.open(runtime_context)
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        key = ctx.get_current_key()
        assert key == value % KEYS
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == COUNTS[key]:
            yield "count", key
        yield from self.inner.process_element(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self.inner.process_broadcast_element(value, ctx)


RULE_ROWS = [("two", 2), ("three", 99), ("three", 3), ("five", 5), ("end", 0)]


def ruled(env: StreamExecutionEnvironment) -> DataStream:
    rules = env.from_collection(RULE_ROWS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    return env.from_sequence(1, N).connect(rules.broadcast(RULES)).process(Rules())


def ruled_by_key(env: StreamExecutionEnvironment) -> DataStream:
    rules = env.from_collection(RULE_ROWS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    return env.from_sequence(1, N).key_by(lambda x: x % KEYS).connect(rules.broadcast(RULES)).process(KeyedRules())


WORDS: Counter[Any] = Counter({"to": 100, "be": 100, "or": 100, "not": 100}) + Counter(
    {str(n): 2 for n in range(1, N + 1, 2)}
)
JOINED: Counter[Any] = Counter((f"p{x % KEYS}", x) for x in range(1, N + 1))
RULED: Counter[Any] = Counter(
    (name, x) for x in range(1, N + 1) for name, divisor in dict(RULE_ROWS).items() if divisor and x % divisor == 0
)
COUNTS: Counter[int] = Counter(x % KEYS for x in range(1, N + 1))
TOTALS = {key: sum(x for x in range(1, N + 1) if x % KEYS == key) for key in range(KEYS)}
TAGGED: Counter[Any] = Counter([("n", x) for x in range(1, N + 1) if x % 10] + [("s", n) for n in range(50)])

PIPELINES: dict[str, tuple[Callable[..., DataStream], Counter[Any]]] = {
    "map": (mapped, TAGGED),
    "flat map": (flat_mapped, WORDS),
    "process": (processed, Counter([("main", x) for x in range(1, N + 1)] + [("side", -x) for x in range(1, N + 1)])),
    "join": (joined, JOINED),
    "join with a union": (joined_with_a_union, JOINED),
    "rules": (ruled, RULED),
    "rules by key": (ruled_by_key, RULED + Counter(("count", key) for key in range(KEYS))),
    "totals": (totalled, Counter(TOTALS.items())),
}


def environment(parallelism: int, options: dict[str, str]) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    return env.set_parallelism(parallelism)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(("parallelism", "options"), RUNS)
def test_it_produces_the_result_of_a_straightforward_computation(
    name: str, parallelism: int, options: dict[str, str]
) -> None:
    build, expected = PIPELINES[name]
    assert Counter(build(environment(parallelism, options)).execute_and_collect(name)) == expected


class Writes(Rules):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put("mine", value)
        yield value


class UsesKeys(KeyedRules):
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update(1)
        yield value


def test_keyed_state_is_not_available_on_the_broadcast_side() -> None:
    env = environment(1, in_process)
    rules = env.from_collection(RULE_ROWS)
    numbers = env.from_collection([42]).key_by(lambda x: x % KEYS)
    numbers.connect(rules.broadcast(RULES)).process(UsesKeys()).name("apply the rules").print()
    with pytest.raises(JobExecutionError) as caught:
        env.execute("no key")
    assert "apply the rules" in str(caught.value)
    assert "StateAccessError" in str(caught.value)
    assert "('two', 2)" in str(caught.value)


def test_writing_broadcast_state_on_the_wrong_side_fails_the_job() -> None:
    env = environment(1, in_process)
    rules = env.from_collection(RULE_ROWS)
    env.from_collection([42]).connect(rules.broadcast(RULES)).process(Writes()).name("apply the rules").print()
    with pytest.raises(JobExecutionError) as caught:
        env.execute("wrong side")
    assert "apply the rules" in str(caught.value)
    assert "'rules' is read-only in process_element" in str(caught.value)
    assert "42" in str(caught.value)
