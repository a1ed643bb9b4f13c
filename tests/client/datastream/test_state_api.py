"""Descriptors, time-to-live and the store's accessors, as programs write them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NewType

import numpy as np
import pytest

from millstream.common import Duration, InvalidProgramError, Time, Types
from millstream.core.records import types as t
from millstream.datastream.functions import AggregateFunction, ReduceFunction
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateAccessError,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

UserId = NewType("UserId", int)


@dataclass
class Order:
    id: int
    price: float


class Latest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc1: int, acc2: int) -> int:
        return acc1 + acc2


class Requested(KeyedStateStore):
    """Returns nothing; records the descriptors."""

    def __init__(self) -> None:
        self.descriptors: list[StateDescriptor] = []

    def keyed_state(self, descriptor: StateDescriptor) -> State:
        self.descriptors.append(descriptor)
        return None  # type: ignore[return-value]  # the state is not used here

    @property
    def last(self) -> StateDescriptor:
        return self.descriptors[-1]


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (int, t.LONG), (Types.INT(), t.INT), (Order, t.DataclassType(Order)), (list[str], t.ListType(t.STRING)),
        (tuple[str, int], t.TupleType((t.STRING, t.LONG))), (None, t.PICKLED), (Any, t.PICKLED),
        (UserId, t.LONG), (list[UserId], t.ListType(t.LONG)),
        (Types.PICKLED_BYTE_ARRAY(), t.PICKLED), (dict[str, int] | None, t.MapType(t.STRING, t.LONG)),
    ],
)  # fmt: skip
def test_types_are_declared_as_everywhere(hint: Any, kind: t.TypeInformation) -> None:
    asked = Requested()
    asked.get_state("s", hint)
    asked.get_state(ValueStateDescriptor("s", hint))
    assert [descriptor.type_info for descriptor in asked.descriptors] == [kind, kind]


@pytest.mark.parametrize(
    ("hint", "undeclared"),
    [
        (None, True), (Any, True), (tuple[int, Any], True), (dict[str, object], True), (list, True),
        (int, False), (Order, False), (Types.PICKLED_BYTE_ARRAY(), False), (Types.LIST(Types.INT()), False),
    ],
)  # fmt: skip
def test_what_is_not_declared_is_known(hint: Any, undeclared: bool) -> None:
    assert ValueStateDescriptor("s", hint).undeclared is undeclared


def test_every_accessor_takes_a_descriptor_or_a_name_and_types() -> None:
    asked = Requested()
    asked.get_list_state("l", int)
    assert asked.last.get_name() == "l"
    assert asked.last.type_info == t.ListType(t.LONG)
    asked.get_list_state(ListStateDescriptor("l", Types.STRING()))
    assert asked.last.type_info == t.ListType(t.STRING)
    asked.get_map_state("m", str, Order)
    assert asked.last.type_info == t.MapType(t.STRING, t.DataclassType(Order))
    asked.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    assert asked.last.type_info == t.MapType(t.STRING, t.LONG)
    asked.get_reducing_state("r", max, int)
    assert isinstance(asked.last, ReducingStateDescriptor)
    assert (asked.last.reduce(1, 2), asked.last.get_reduce_function()) == (2, max)
    asked.get_reducing_state(ReducingStateDescriptor("r", Latest(), Types.LONG()))
    assert isinstance(asked.last, ReducingStateDescriptor)
    assert asked.last.reduce(5, 4) == 4
    asked.get_aggregating_state("a", Total(), int)
    assert isinstance(asked.last, AggregatingStateDescriptor)
    assert asked.last.get_agg_function().add(1, 2) == 3
    asked.get_aggregating_state(AggregatingStateDescriptor("a", Total(), Types.LONG()))
    assert repr(asked.last) == "AggregatingStateDescriptor('a', Long)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s: s.get_state(""), "a state needs a name"),
        (lambda s: s.get_state(7), "expected a ValueStateDescriptor or the state's name, not 7"),
        (lambda s: s.get_state(ListStateDescriptor("l", int)), "expected a ValueStateDescriptor or the state's name"),
        (lambda s: s.get_state(ValueStateDescriptor("v", int), int), "state 'v': a descriptor has its types"),
        (lambda s: s.get_state("v", lambda: 1), "state 'v': expected a type"),
        (lambda s: s.get_reducing_state("r"), "state 'r': expected a ReduceFunction or a callable, not None"),
        (lambda s: s.get_aggregating_state("a", max), "state 'a': the aggregate function lacks create_accumulator"),
        (lambda s: ValueStateDescriptor("v", int).enable_time_to_live(timedelta(1)), "expected a StateTtlConfig"),
        (lambda s: StateTtlConfig.new_builder(5), "must be a duration, such as timedelta"),
        (lambda s: StateTtlConfig.new_builder(timedelta(0)), "must be longer than 0"),
        (
            lambda s: StateTtlConfig.new_builder(timedelta(1)).set_update_type("OnReadAndWrite"),
            "expected one of UpdateType.Disabled, .* not 'OnReadAndWrite'",
        ),
        (
            lambda s: StateTtlConfig.new_builder(timedelta(1)).set_state_visibility("ReturnExpiredIfNotCleanedUp"),
            "expected one of StateVisibility.ReturnExpiredIfNotCleanedUp, ",
        ),
        (
            lambda s: StateTtlConfig.new_builder(timedelta(1)).cleanup_incrementally(0),
            "cleanup_size must be positive, not 0",
        ),
    ],
)
def test_mistakes_are_reported(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        wrong(Requested())


def test_without_a_key_there_is_no_store() -> None:
    with pytest.raises(StateAccessError, match="state 's' requires a keyed stream: call key_by"):
        KeyedStateStore().get_state("s", int)


def test_time_to_live_as_pyflink_builds_it() -> None:
    config = StateTtlConfig.new_builder(timedelta(hours=1)).build()
    assert config.get_ttl() == Time.hours(1)
    assert config.is_enabled()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    assert cleanup.in_rocksdb_compact_filter()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    full = (
        StateTtlConfig.new_builder(timedelta(seconds=1))
        .set_ttl(timedelta(seconds=2))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(50)
        .disable_cleanup_in_background()
        .build()
    )
    assert full.ttl_ms == 2000
    assert full.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert full.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    strategies = full.get_cleanup_strategies()
    assert strategies.in_full_snapshot()
    compact = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert compact.get_query_time_after_num_entries() == 50
    none = StateTtlConfig.new_builder(timedelta(1)).disable_cleanup_in_background().build().get_cleanup_strategies()
    assert none.get_incremental_cleanup_strategy() is None
    assert not none.in_rocksdb_compact_filter()
    written = StateTtlConfig.new_builder(timedelta(1)).update_ttl_on_create_and_write().never_return_expired().build()
    assert written == StateTtlConfig.new_builder(timedelta(1)).build()


@pytest.mark.parametrize(
    "length",
    [
        timedelta(days=1), Time.days(1), Time.hours(24), Time.minutes(1440), Time.seconds(86400),
        Time.milliseconds(86_400_000), Duration.of_days(1), Duration.of_hours(24), Duration.of_minutes(1440),
        Duration.of_seconds(86400), Duration.of_millis(86_400_000),
    ],
)  # fmt: skip
def test_durations_as_pyflink_writes_them(length: Any) -> None:
    assert StateTtlConfig.new_builder(length).build().get_ttl() == Time.days(1)
    compact = StateTtlConfig.new_builder(length).cleanup_in_rocksdb_compact_filter(9, length).build()
    strategy = compact.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
    assert strategy.get_periodic_compaction_time() == Duration.of_days(1)


@pytest.mark.parametrize("unset", [(), (None,), (0,), (False,), ("",)])
def test_rocksdb_compacts_every_30_days_unless_configured_otherwise(unset: tuple[Any, ...]) -> None:
    built = StateTtlConfig.new_builder(Time.days(1)).cleanup_in_rocksdb_compact_filter(17, *unset).build()
    strategy = pickle.loads(pickle.dumps(built)).get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
    assert strategy.get_periodic_compaction_time() == Duration.of_days(30)
    assert strategy.get_query_time_after_num_entries() == 17


@pytest.mark.parametrize("never", [timedelta(0), Duration.of_millis(0), Time.seconds(0)])
def test_rocksdb_compacts_only_by_itself_when_the_time_is_zero(never: Any) -> None:
    built = StateTtlConfig.new_builder(Time.days(1)).cleanup_in_rocksdb_compact_filter(17, never).build()
    strategy = built.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
    assert strategy.get_periodic_compaction_time() == Duration.of_millis(0)


def test_what_can_be_called_is_the_reduce_function() -> None:
    assert ReducingStateDescriptor("r", np.add, int).reduce(1, 2) == 3
    assert ReducingStateDescriptor("r", Latest(), int).reduce(1, 2) == 2


def test_a_disabled_time_to_live_is_none() -> None:
    descriptor = ValueStateDescriptor("v", int)
    assert descriptor.ttl is None
    builder = StateTtlConfig.new_builder(timedelta(1))
    descriptor.enable_time_to_live(builder.set_update_type(StateTtlConfig.UpdateType.Disabled).build())
    assert descriptor.ttl is None
    descriptor.enable_time_to_live(builder.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite).build())
    assert descriptor.ttl is not None


def test_classes_that_contain_themselves_can_be_declared() -> None:
    assert not ValueStateDescriptor("v", Node).undeclared


@dataclass
class Node:
    name: str
    children: list[Node]
