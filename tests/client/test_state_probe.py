"""What programs declare, learnt by opening their functions once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from millstream.client.state_probe import declared_operators
from millstream.common import Types
from millstream.core.snapshot import StateKind
from millstream.core.snapshot.fitting.fit import ProgramOperator
from millstream.core.snapshot.metadata.types_json import describe_json
from millstream.datastream import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import AggregateFunction
from millstream.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

CALLS: list[str] = []


@dataclass
class Seen:
    words: int
    longest: str = ""


class Adding(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc1: int, acc2: int) -> int:
        return acc1 + acc2


class Everything(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append(f"open {runtime_context.get_task_name_with_subtasks()}")
        expiring = ValueStateDescriptor("value", Types.LONG())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(timedelta(seconds=5)).build())
        runtime_context.get_state(expiring)
        runtime_context.get_list_state(ListStateDescriptor("list", Seen))
        runtime_context.get_map_state(MapStateDescriptor("map", str, list[int]))
        runtime_context.get_reducing_state(ReducingStateDescriptor("reducing", max, int))
        runtime_context.get_aggregating_state(AggregatingStateDescriptor("aggregating", Adding(), int))
        runtime_context.get_state("untyped")

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        raise AssertionError("nothing is processed")

    def close(self) -> None:
        CALLS.append("close")


class Buffering(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        assert not context.is_restored()
        store = context.get_operator_state_store()
        store.get_list_state("buffer", str)
        store.get_union_list_state("offsets", int)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        raise AssertionError("no snapshot is taken")

    def map(self, value: Any) -> Any:
        raise AssertionError("nothing is processed")


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return ()


class Untouched(Sink):
    made: ClassVar[list[str]] = []

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        self.made.append("writer")
        raise AssertionError("no writer is created")


def declared(env: StreamExecutionEnvironment) -> dict[str | None, ProgramOperator]:
    return {one.declared.uid or one.declared.name: one for one in declared_operators(env.generate_job().graph)}


def told(one: ProgramOperator) -> dict[str, tuple[StateKind, str]]:
    return {
        s.name: (s.kind, describe_json(s.value_type) if s.value_type is not None else "") for s in one.declared.states
    }


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    CALLS.clear()
    made = StreamExecutionEnvironment.get_execution_environment()
    made.set_parallelism(3)
    return made


def test_keyed_state_of_all_kinds(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).key_by(lambda x: x, key_type=Types.LONG())
    stream.process(Everything()).name("all").uid("all").sink_to(Untouched())
    found = declared(env)
    assert told(found["all"]) == {
        "value": (StateKind.VALUE, "Long"),
        "list": (StateKind.LIST, "Seen(words: Long, longest: String)"),
        "map": (StateKind.MAP, "List<Long>"),
        "reducing": (StateKind.REDUCING, "Long"),
        "aggregating": (StateKind.AGGREGATING, "Long"),
        "untyped": (StateKind.VALUE, "PickledByteArray"),
    }
    states = {state.name: state for state in found["all"].declared.states}
    assert {describe_json(state.key_type or {}) for state in states.values()} == {"Long"}
    ttl = states["value"].ttl
    assert ttl.ttl_ms == 5000
    assert states["map"].map_key_type == {"type": "basic", "name": "String"}
    assert (found["all"].declared.parallelism, found["all"].declared.max_parallelism) == (3, 128)
    assert found["all"].max_parallelism_derived
    assert CALLS == ["open all (1/3)", "close"]
    assert Untouched.made == []
    assert not any(StateKind.SINK_TRANSACTIONS in one.holds for one in found.values())


def test_operators_own_states(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([(1, 1)]).uid("source")
    numbers.map(Buffering()).uid("buffer").key_by(lambda x: x[0]).reduce(lambda a, b: a).uid("reduce").print()
    rules = MapStateDescriptor("rules", str, int)
    numbers.connect(numbers.broadcast(rules)).process(Rules()).uid("rules").print()
    found = declared(env)
    assert told(found["buffer"]) == {
        "buffer": (StateKind.OPERATOR_LIST, "String"),
        "offsets": (StateKind.OPERATOR_UNION, "Long"),
    }
    assert list(told(found["reduce"])) == ["reduce"]
    assert told(found["rules"]) == {"rules": (StateKind.BROADCAST, "Long")}
    assert found["source"].holds == {StateKind.SPLITS}
    assert all(one.error is None for one in found.values())


def test_keyed_rich_functions_with_operator_state(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).key_by(lambda x: x).map(Buffering()).uid("buffer").print()
    assert list(told(declared(env)["buffer"])) == ["buffer", "offsets"]


class Failing(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state("x")

    def map(self, value: Any) -> Any:
        return value


def test_a_function_that_does_not_open(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(Failing()).uid("bad").map(lambda x: x).uid("good").print()
    errors: list[BaseException] = []
    found = {one.declared.uid: one for one in declared_operators(env.generate_job().graph, errors.append)}
    assert "state 'x' requires a keyed stream" in (found["bad"].error or "")
    assert "\n" not in (found["bad"].error or "")
    assert found["good"].error is None
    assert len(errors) == 1


class Unloadable:
    def __call__(self, value: Any) -> Any:
        return value

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_function_that_cannot_be_loaded(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).rebalance().map(Unloadable()).uid("bad").print()
    errors: list[BaseException] = []
    found = {one.declared.uid: one for one in declared_operators(env.generate_job().graph, errors.append)}
    assert "invalid literal" in (found["bad"].error or "")
    assert len(errors) == 1
