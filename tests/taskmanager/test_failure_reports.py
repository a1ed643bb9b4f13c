"""Failures as users read them: an invalid key is named, with a hint what to use instead."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from worker_rig import RowsSource, WorkerRig

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec
from millstream.core.records import types as t
from millstream.core.records.batches import RowBatch
from millstream.datastream.functions import (
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    SinkContext,
    SinkFunction,
)
from millstream.taskmanager import testing
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.failures import describe_failure
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.partitioning import PartitioningError, make_router

DEPLOYMENT = replace(testing.DEPLOYMENT, task_name="words -> map (1/2)")
BY_FIRST = plan.KeySelector(fields=(0,))


@dataclass
class Changing:
    number: int


KEYS = [{"a": 1}, {1}, Changing(1), np.array([1]), (1, {2})]


class Counting(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state("count", int)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update(1)


class Joining(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        raise TypeError("unhashable type, raised by the user")

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        yield {ctx.get_current_key()}


class Mapping(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return {value[0]}

    def map2(self, value: Any) -> Any:
        return value


def check(failure: TaskFailure, where: str, key: Any) -> None:
    message = f"UnhashableKeyError: the key selector of '{where}' returned {key!r}, a {type(key).__name__}, which can"
    assert message in failure.exception
    assert failure.exception in failure.traceback
    assert "return a tuple of its values, a dataclass with frozen=True" in failure.exception
    assert failure.record == repr((key, "the record"))


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_mutable_key_is_reported_by_the_operator_that_keeps_state_for_it(rig: WorkerRig, key: Any) -> None:
    specs = [plan.ReduceSpec(lambda a, b: b, BY_FIRST), plan.KeyedProcessSpec(Counting(), BY_FIRST)]
    for spec in specs:
        rows = RowsSource([(1, "fine"), (key, "the record"), (2, "fine")])
        task = rig.run(plan.SourceSpec(rows), spec)
        check(rig.failure(task), "op 1", key)


@pytest.mark.parametrize("timestamps", [None, [1, 2]])
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_mutable_key_is_reported_where_records_are_routed(key: Any, timestamps: list[int] | None) -> None:
    router = make_router(plan.EdgeSpec(plan.HashPartitioner(BY_FIRST), t.PICKLED, 128), 2, 0, 0)
    with pytest.raises(PartitioningError) as caught:
        list(router.route(RowBatch([(1, "fine"), (key, "the record")], timestamps)))
    check(describe_failure(caught.value, DEPLOYMENT, 1), "words -> map (1/2)", key)


def test_the_key_of_each_input_is_reported() -> None:
    keys = plan.TwoInputKeys(BY_FIRST, BY_FIRST)
    both = OperatorHarness(plan.CoProcessSpec(Joining(), keys), name="joined").operator
    mapped = OperatorHarness(plan.CoMapSpec(Mapping(), keys), name="joined").operator
    for process in (both.receivers()[1], mapped.process):
        with pytest.raises(OperatorError) as caught:
            process(RowBatch([({1}, "the record")]))
        check(describe_failure(caught.value, DEPLOYMENT, 1), "joined", {1})


def test_an_error_of_user_code_is_not_changed() -> None:
    keys = plan.TwoInputKeys(plan.KeySelector(function=lambda value: value or {[]}), BY_FIRST)
    both = OperatorHarness(plan.CoProcessSpec(Joining(), keys), name="joined").operator
    for record, message in (("a good key", "unhashable type, raised by the user"), ("", "unhashable type: 'list'")):
        with pytest.raises(OperatorError) as caught:
            both.process(RowBatch([record]))
        assert describe_failure(caught.value, DEPLOYMENT, 1).exception == f"TypeError: {message}"


class Unsendable:
    def __repr__(self) -> str:
        return "half a pair \udc80"


def test_an_error_and_a_record_that_are_not_utf_8_are_reported() -> None:
    failure = describe_failure(OperatorError("map", Unsendable(), ValueError("the file \udc80")), DEPLOYMENT, 1)
    assert (failure.record, failure.exception) == ("half a pair \\udc80", "ValueError: the file \\udc80")


class Unsayable(Exception):
    def __repr__(self) -> str:
        raise SystemExit(3)

    __str__ = __repr__


def test_an_error_whose_str_fails_is_reported_with_its_operator_and_record() -> None:
    failure = describe_failure(OperatorError("map", 7, Unsayable()), DEPLOYMENT, 1)
    assert (failure.operator_name, failure.record) == ("map", "7")
    assert "Unsayable: <exception str() failed>" in failure.exception
    described = describe_failure(PartitioningError(Unsayable(), Unsayable(), None), DEPLOYMENT, 1)
    assert "Unsayable" in described.record


def test_an_error_that_is_the_cause_of_its_own_cause_is_reported() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert describe_failure(OperatorError("map", 7, one), DEPLOYMENT, 1).exception == "ValueError: one"


# Errors caused by a record, and outages


def raised_by(function: Callable[[Any], Any], rig: WorkerRig, make: Callable[[Any], Any]) -> TaskFailure:
    return rig.failure(rig.run(plan.SourceSpec(RowsSource([1, 2])), make(function)))


class Plain:
    """Its repr is only an address."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Wrapped(Exception):
    """As libraries for databases and services wrap errors."""


def _refused(_: Any) -> Any:
    try:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    except OSError as error:
        raise _Wrapped("cannot reach the service") from error


def _full(_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def _too_large(_: Any) -> Any:
    raise OSError(errno.EFBIG, "File too large")


def _late(_: Any) -> Any:
    raise TimeoutError("no response")


def _poison(_: Any) -> Any:
    raise ValueError("no number")


def _no_file(_: Any) -> Any:
    raise FileNotFoundError(errno.ENOENT, "No such file or directory", "the record's")


class _Open(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        _poison(None)

    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("function", [_refused, _full, _too_large, _late], ids=lambda f: f.__name__)
def test_an_error_of_a_disk_or_a_connection_is_an_outage_even_at_a_record(
    rig: WorkerRig, function: Callable[[Any], Any]
) -> None:
    failure = raised_by(function, rig, plan.MapSpec)
    assert (failure.kind, failure.record) == (FailureKind.OUTAGE, "1")


@pytest.mark.parametrize("function", [_poison, _no_file], ids=lambda f: f.__name__)
def test_any_other_error_at_a_record_is_attributed_to_the_record(
    rig: WorkerRig, function: Callable[[Any], Any]
) -> None:
    failure = raised_by(function, rig, plan.MapSpec)
    assert (failure.kind, failure.record) == (FailureKind.ORDINARY, "1")


def test_an_error_of_a_sink_function_is_an_outage_and_names_the_record(rig: WorkerRig) -> None:
    class Writing(SinkFunction):
        def invoke(self, value: Any, context: SinkContext) -> None:
            _poison(value)

    failure = rig.failure(rig.run(plan.SourceSpec(RowsSource([1, 2])), SinkFunctionSpec(Writing())))
    assert (failure.kind, failure.record) == (FailureKind.OUTAGE, "1")


def test_an_error_of_open_has_no_record(rig: WorkerRig) -> None:
    failure = rig.failure(rig.run(plan.SourceSpec(RowsSource([1])), plan.MapSpec(_Open())))
    assert failure.record == ""


def test_a_batch_that_fails_is_distinguished_from_others(rig: WorkerRig) -> None:
    def parse(batch: Any) -> Any:
        return _poison(batch)

    failure = rig.failure(rig.run(plan.SourceSpec(RowsSource([7, 8, 9])), plan.MapBatchesSpec(parse, "arrow")))
    assert failure.record == "one of 2, the first of which is 7"
    assert failure.kind is FailureKind.ORDINARY


def test_an_object_whose_repr_is_an_address_is_shown_by_its_fields(rig: WorkerRig) -> None:
    failure = rig.failure(rig.run(plan.SourceSpec(RowsSource([Plain(7), Plain(8)])), plan.MapSpec(_poison)))
    assert failure.record == "Plain(number=7)"
