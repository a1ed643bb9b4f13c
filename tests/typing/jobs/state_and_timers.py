"""Keyed state of all kinds, time-to-live, timers and side outputs, without a type parameter and with all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from millstream.common import Time, Types
from millstream.datastream import (
    KeyedStream,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
)
from millstream.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
)
from millstream.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)


@dataclass(frozen=True)
class Click:
    user: str
    page: str
    at: int


SLOW = OutputTag("slow", Types.TUPLE([Types.STRING(), Types.LONG()]))
BROKEN = OutputTag("broken", Types.STRING())


class Pages(AggregateFunction[str, dict[str, int], int]):
    def create_accumulator(self) -> dict[str, int]:
        return {}

    def add(self, value: str, accumulator: dict[str, int]) -> dict[str, int]:
        accumulator[value] = accumulator.get(value, 0) + 1
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> int:
        return len(accumulator)

    def merge(self, acc_a: dict[str, int], acc_b: dict[str, int]) -> dict[str, int]:
        return acc_a | acc_b


class Sessions(KeyedProcessFunction[str, Click, tuple[str, int]]):
    def __init__(self) -> None:
        self.count: ValueState[int] | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        described = ValueStateDescriptor("count", Types.LONG())
        ttl = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().never_return_expired().build()
        described.enable_time_to_live(ttl)
        described.enable_time_to_live(StateTtlConfig.new_builder(timedelta(hours=1)).build())
        self.count = runtime_context.get_state(described)
        self.pages: ListState[str] = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))
        self.last: MapState[str, int] = runtime_context.get_map_state(
            MapStateDescriptor("last", Types.STRING(), Types.LONG())
        )
        self.latest = runtime_context.get_reducing_state(ReducingStateDescriptor("latest", max, Types.LONG()))
        self.distinct = runtime_context.get_aggregating_state(AggregatingStateDescriptor("distinct", Pages()))
        self.named = runtime_context.get_state("named", str)
        self.counter = runtime_context.get_metrics_group().counter("clicks")

    def process_element(
        self, value: Click, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, int] | tuple[OutputTag[Any], Any]]:
        assert self.count is not None
        count = self.count.value() or 0
        self.count.update(count + 1)
        self.pages.add(value.page)
        self.last.put(value.page, value.at)
        self.latest.add(value.at)
        self.distinct.add(value.page)
        self.named.update((self.named.value() or "") + value.page)
        self.counter.inc()
        if (latest := self.latest.get()) is not None and latest > value.at + 1000:
            yield SLOW, (value.user, latest)
        ctx.timer_service().register_event_time_timer(value.at + 60_000)
        for page, at in self.last.items():
            yield page.title(), at

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[tuple[str, int]]:
        if ctx.time_domain() == TimeDomain.EVENT_TIME:
            self.pages.clear()
        return [(ctx.get_current_key(), timestamp)]


class Untyped(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("s", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Click, ctx: KeyedProcessFunction.Context) -> Iterable[Click]:
        self.state.update(value)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Click]:
        last: Click | None = self.state.value()
        if last is not None:
            yield last


class Parse(ProcessFunction[str, Click]):
    def process_element(
        self, value: str, ctx: ProcessFunction.Context
    ) -> Iterator[Click | tuple[OutputTag[str], str]]:
        parts = value.split(",")
        if len(parts) != 3:
            yield BROKEN, value
        else:
            yield Click(parts[0], parts[1], int(parts[2]))


class Numbered(MapFunction[Click, tuple[int, Click]], CheckpointedFunction):
    next = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.kept = context.get_operator_state_store().get_list_state(ListStateDescriptor("next", Types.LONG()))
        for number in self.kept.get():
            self.next = max(self.next, number)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.kept.update([self.next])

    def map(self, value: Click) -> tuple[int, Click]:
        self.next += 1
        return self.next, value


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    parsed = env.read_text_file("clicks.csv").process(Parse()).name("parse").uid("parse")
    parsed.get_side_output(BROKEN).map(lambda line: line.strip()).print("broken")
    keyed: KeyedStream[str, Click] = parsed.key_by(lambda click: click.user, key_type=Types.STRING())
    sessions = keyed.process(Sessions(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()])).uid("sessions")
    sessions.get_side_output(SLOW).map(lambda slow: slow[0]).print()
    keyed.process(Sessions()).map(lambda found: found[0].upper()).print()
    keyed.process(Untyped()).print()
    keyed.process(lambda click, ctx: [(ctx.get_current_key().upper(), click.at)]).map(lambda p: p[1] + 1).print()
    parsed.map(Numbered()).map(lambda numbered: numbered[1].page).print()
    env.execute("sessions")


if __name__ == "__main__":
    main()
