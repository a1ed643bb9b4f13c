"""Connected streams, broadcast state, joins of windows, interval joins and unions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from millstream.common import Time, Types
from millstream.datastream import DataStream, OutputTag, RuntimeContext, StreamExecutionEnvironment
from millstream.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
)
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows


class Order(NamedTuple):
    id: int
    customer: str
    amount: float


@dataclass
class Payment:
    order: int
    paid: float


UNPAID = OutputTag("unpaid", Types.LONG())
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.DOUBLE())


class Match(KeyedCoProcessFunction[int, Order, Payment, tuple[int, float]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.amount = runtime_context.get_state(ValueStateDescriptor("amount", Types.DOUBLE()))

    def process_element1(self, value: Order, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple[int, float]]:
        self.amount.update(value.amount)
        ctx.timer_service().register_processing_time_timer(1)
        return []

    def process_element2(self, value: Payment, ctx: KeyedCoProcessFunction.Context) -> Iterator[tuple[int, float]]:
        yield value.order, value.paid - (self.amount.value() or 0.0)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield UNPAID, ctx.get_current_key()


class Labels(CoMapFunction[Order, Payment, str]):
    def map1(self, value: Order) -> str:
        return value.customer

    def map2(self, value: Payment) -> str | None:
        return str(value.paid) if value.paid else None


class Each(CoFlatMapFunction[Order, Payment, int]):
    def flat_map1(self, value: Order) -> Iterable[int]:
        yield value.id

    def flat_map2(self, value: Payment) -> list[int]:
        return [value.order]


class Plain(CoProcessFunction):
    def process_element1(self, value: Order, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield ctx.timestamp()

    def process_element2(self, value: Payment, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield value


class Limit(BroadcastProcessFunction[Order, tuple[str, float], Order]):
    def process_element(self, value: Order, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Order]:
        limit = ctx.get_broadcast_state(LIMITS).get(value.customer)
        if limit is None or value.amount < limit:
            yield value

    def process_broadcast_element(
        self, value: tuple[str, float], ctx: BroadcastProcessFunction.Context
    ) -> Iterable[Order]:
        ctx.get_broadcast_state(LIMITS).put(value[0], value[1])
        return []


class KeyedLimit(KeyedBroadcastProcessFunction):
    def process_element(
        self, value: Order, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, Order]]:
        if ctx.get_broadcast_state(LIMITS).contains(ctx.get_current_key()):
            yield ctx.get_current_key(), value

    def process_broadcast_element(
        self, value: tuple[str, float], ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterator[tuple[str, Order]]:
        ctx.get_broadcast_state(LIMITS)[value[0]] = value[1]
        ctx.apply_to_keyed_state(ValueStateDescriptor("n", Types.LONG()), lambda key, state: state.clear())
        yield from ()


class Paid(JoinFunction[Order, Payment, str]):
    def join(self, first: Order, second: Payment) -> str:
        return f"{first.customer} {second.paid}"


class PaidParts(FlatJoinFunction[Order, Payment, float]):
    def join(self, first: Order, second: Payment) -> Iterator[float]:
        yield first.amount
        yield second.paid


class Totals(CoGroupFunction[Order, Payment, float]):
    def co_group(self, first: Iterable[Order], second: Iterable[Payment]) -> Iterable[float]:
        return [sum(order.amount for order in first) - sum(payment.paid for payment in second)]


class Within(ProcessJoinFunction[Order, Payment, tuple[str, int]]):
    def process_element(
        self, left: Order, right: Payment, ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[str, int]]:
        yield left.customer, ctx.get_right_timestamp() - ctx.get_left_timestamp()


def both(orders: DataStream[Order], payments: DataStream[Payment]) -> DataStream[tuple[int, float]]:
    connected = orders.connect(payments)
    connected.map(Labels()).map(lambda label: label.upper()).print()
    connected.map((lambda order: order.customer, lambda payment: str(payment.paid))).print()
    connected.flat_map(Each()).map(lambda number: number + 1).print()
    connected.flat_map((lambda order: [order.amount], lambda payment: [payment.paid])).print()
    connected.process(Plain()).print()
    keyed = connected.key_by(lambda order: order.id, lambda payment: payment.order)
    keyed.process((lambda order, ctx: [ctx.get_current_key()], lambda payment, ctx: [payment.order])).print()
    matched = orders.key_by(lambda o: o.id).connect(payments.key_by(lambda p: p.order)).process(Match())
    matched.get_side_output(UNPAID).map(lambda number: number + 1).print()
    return keyed.process(Match(), output_type=Types.TUPLE([Types.LONG(), Types.DOUBLE()]))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = env.from_collection([Order(1, "ann", 2.5)])
    payments = env.from_collection([Payment(1, 2.5)])
    limits = env.from_collection([("ann", 9.5)])
    both(orders, payments).map(lambda pair: pair[1] * 2).print()
    orders.connect(limits.broadcast(LIMITS)).process(Limit()).map(lambda order: order.customer).print()
    orders.key_by(lambda o: o.customer).connect(limits.broadcast(LIMITS)).process(KeyedLimit()).print()
    window = TumblingEventTimeWindows.of(Time.seconds(5))
    joined = orders.join(payments).where(lambda o: o.id).equal_to(lambda p: p.order).window(window)
    joined.apply(Paid()).map(str.upper).print()
    joined.apply(PaidParts()).map(lambda amount: amount + 1.0).print()
    joined.apply(lambda order, payment: (order.id, payment.paid)).map(lambda pair: pair[0] + 1).print()
    grouped = orders.co_group(payments).where("id").equal_to(lambda p: p.order).window(window)
    grouped.apply(Totals()).map(lambda total: round(total, 2)).print()
    grouped.apply(lambda first, second: [len(first) + len(second)]).map(lambda n: n + 1).print()
    by_id = orders.key_by(lambda o: o.id)
    between = by_id.interval_join(payments.key_by(lambda p: p.order)).between(Time.seconds(-1), Time.seconds(5))
    between.lower_bound_exclusive().process(Within()).map(lambda found: found[1] + 1).print()
    between.process(lambda order, payment, ctx: [order.amount - payment.paid]).map(lambda rest: rest * 2).print()
    orders.map(lambda o: o.id).union(payments.map(lambda p: p.order), env.from_sequence(1, 2)).map(hex).print()
    env.execute()


if __name__ == "__main__":
    main()
