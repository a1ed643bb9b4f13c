"""Mistakes of a program that its author has to understand from the message alone."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from api_fakes import FakeExecutor

from millstream.common import Configuration, InvalidProgramError, Time, TimestampAssigner, WatermarkStrategy
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.datastream import (
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    MapFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.print import PrintSink
from millstream.datastream.window import MissingTimestampError, TumblingEventTimeWindows

WINDOWS = TumblingEventTimeWindows.of(Time.seconds(1))


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream[int]:
    return env.from_sequence(1, 3)


# Functions that would have to be awaited


async def fetch(*values: Any) -> Any:
    return values


class Fetching:
    async def __call__(self, *values: Any) -> Any:
        return values


class AsyncMap(MapFunction):
    async def map(self, value: Any) -> Any:
        return value


class AsyncWindow(WindowFunction):
    async def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return inputs


class AsyncProcessWindow(ProcessWindowFunction):
    async def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return elements


class AsyncJoin(JoinFunction):
    async def join(self, first: Any, second: Any) -> Any:
        return first


class AsyncFlatJoin(FlatJoinFunction):
    async def join(self, first: Any, second: Any) -> Any:
        return first


class AsyncCoGroup(CoGroupFunction):
    async def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Any:
        return first


def key(value: int) -> int:
    return value % 2


def windows(stream: DataStream[int]) -> Any:
    return stream.key_by(key).window(WINDOWS)


def paired(stream: DataStream[int], method: str) -> Any:
    return getattr(stream, method)(stream).where(key).equal_to(key).window(WINDOWS)


@pytest.mark.parametrize(
    ("method", "use"),
    [
        ("map", lambda s: s.map(fetch)),
        ("map", lambda s: s.map(AsyncMap())),
        ("map", lambda s: s.map(functools.partial(fetch, 1))),
        ("map", lambda s: s.map(Fetching())),
        ("filter", lambda s: s.filter(fetch)),
        ("flat_map", lambda s: s.flat_map(Fetching())),
        ("process", lambda s: s.process(fetch)),
        ("map_batches", lambda s: s.map_batches(fetch)),
        ("key_by", lambda s: s.key_by(fetch)),
        ("reduce", lambda s: s.key_by(key).reduce(fetch)),
        ("add_sink", lambda s: s.add_sink(fetch)),
        ("apply", lambda s: windows(s).apply(AsyncWindow())),
        ("apply", lambda s: windows(s).apply(fetch)),
        ("process", lambda s: windows(s).process(AsyncProcessWindow())),
        ("reduce", lambda s: windows(s).reduce(max, AsyncProcessWindow())),
        ("map", lambda s: s.connect(s).map((fetch, fetch))),
        ("join", lambda s: paired(s, "join").apply(AsyncJoin())),
        ("join", lambda s: paired(s, "join").apply(AsyncFlatJoin())),
        ("co_group", lambda s: paired(s, "co_group").apply(AsyncCoGroup())),
    ],
)
def test_async_functions_are_sent_to_async_data_stream(
    numbers: DataStream[int], method: str, use: Callable[[Any], Any]
) -> None:
    with pytest.raises(InvalidProgramError, match=rf"^{method}: .*is an async function.*AsyncDataStream") as raised:
        use(numbers)
    assert "AsyncFunction" in str(raised.value)


# What a stream without keys does not have


@pytest.mark.parametrize("name", ["window", "count_window", "reduce", "sum", "max_by", "interval_join"])
def test_what_only_keyed_streams_have_requires_key_by(numbers: DataStream[int], name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'.*key_by\(\.\.\.\)\.{name}") as raised:
        getattr(numbers, name)
    assert (f"{name}_all" in str(raised.value)) == name.endswith("window")
    assert not hasattr(numbers, name)
    assert hasattr(numbers.key_by(key), name)


def test_other_attributes_are_missing_as_ever(numbers: DataStream[int]) -> None:
    with pytest.raises(AttributeError, match=r"^'DataStream' object has no attribute 'group_by'$"):
        numbers.group_by  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'windo'$"):
        numbers.key_by(key).windo  # type: ignore[attr-defined]  # noqa: B018


def test_a_record_without_a_timestamp_is_named_in_plain_words() -> None:
    with pytest.raises(MissingTimestampError, match=r"^a record has no timestamp") as raised:
        WINDOWS.assign_windows(1, MIN_TIMESTAMP, None)  # type: ignore[arg-type]
    assert "MIN_VALUE" not in str(raised.value)
    assert str(MIN_TIMESTAMP) not in str(raised.value)


# Operators that nothing reads


def test_operators_without_a_reader_are_named_once(
    env: StreamExecutionEnvironment, executor: FakeExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = env.from_sequence(1, 3).map(str).name("text")
    stream.filter(bool).name("dangling")
    stream.print()
    env.execute()
    warned = capsys.readouterr().err.splitlines()
    assert len(warned) == 1
    assert warned[0].startswith("warning: no operator reads the records of the operator 'dangling'")
    assert "sink_to" in warned[0]
    assert executor.clients, "it runs all the same"


def test_several_operators_without_a_reader_are_all_named(
    env: StreamExecutionEnvironment, executor: FakeExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = env.from_sequence(1, 3)
    stream.map(str).name("one")
    stream.map(str).name("two")
    env.execute_async()
    assert "the operators 'one', 'two'" in capsys.readouterr().err


def test_a_program_whose_streams_all_end_in_sinks_is_silent(
    env: StreamExecutionEnvironment, executor: FakeExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = env.from_sequence(1, 3)
    stream.sink_to(PrintSink())
    stream.add_sink(print)
    list(stream.map(str).execute_and_collect())
    assert capsys.readouterr().err == ""


# State without a uid


def keyed_program(env: StreamExecutionEnvironment, uids: bool) -> None:
    source = env.from_sequence(1, 3).name("numbers")
    reduced = source.key_by(key).reduce(max).name("highest")
    if uids:
        source.uid("numbers")
        reduced.uid("highest")
    reduced.map(str).print()


def submitted(execution_mode: str = "STREAMING", target: str = "remote") -> StreamExecutionEnvironment:
    options = Configuration({"execution.target": target, "execution.runtime-mode": execution_mode})
    return StreamExecutionEnvironment.get_execution_environment(options)


def test_operators_with_state_and_without_a_uid_are_named_at_submission(
    executor: FakeExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    env = submitted()
    keyed_program(env, uids=False)
    env.execute()
    (warned,) = capsys.readouterr().err.splitlines()
    assert "'Source: numbers', 'highest' keep state and have no uid" in warned
    assert ".uid(" in warned
    assert "Map" not in warned


@pytest.mark.parametrize(
    ("uids", "mode", "target"),
    [(True, "STREAMING", "remote"), (False, "BATCH", "remote"), (False, "STREAMING", "local")],
)
def test_uids_are_wanted_only_where_state_is_restored(
    executor: FakeExecutor, capsys: pytest.CaptureFixture[str], uids: bool, mode: str, target: str
) -> None:
    env = submitted(mode, target)
    keyed_program(env, uids)
    env.execute()
    assert capsys.readouterr().err == ""


# Packages that are not there


@pytest.mark.parametrize("name", ["millstream.table", "millstream.table.expressions", "millstream.table.udf"])
def test_the_table_api_is_said_to_be_missing_with_what_to_use(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no Table API.*DataStream API.*map_batches") as raised:
        importlib.import_module(name)
    assert raised.value.name == "millstream.table"


# Functions over batches that derive from nothing


class Model:
    """As in the manual: an object with `open`, `close` and a method `map_batches`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: Any) -> None:
        self.calls.append(f"open {runtime_context}")

    def map_batches(self, batch: Any) -> Any:
        self.calls.append(f"map_batches {batch}")
        return batch

    def close(self) -> None:
        self.calls.append("close")


class OnlyMapBatches:
    def map_batches(self, batch: Any) -> Any:
        return batch


class BadOpen(OnlyMapBatches):
    def open(self) -> None: ...


class Pandas:
    def map_batches(self, frame: pd.DataFrame) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return frame


class Many:
    def map_batches(self) -> Any: ...


def spec_of(stream: DataStream[Any]) -> Any:
    return stream.transformation.spec  # type: ignore[attr-defined]


def test_an_object_over_batches_is_opened_called_and_closed(numbers: DataStream[int]) -> None:
    model = Model()
    function = spec_of(numbers.map_batches(model)).function
    function.open("context")
    assert function.map_batches("batch") == "batch"
    function.close()
    assert model.calls == ["open context", "map_batches batch", "close"]


def test_open_and_close_over_batches_are_optional(numbers: DataStream[int]) -> None:
    spec = spec_of(numbers.map_batches(OnlyMapBatches()))
    spec.function.open("context")
    spec.function.close()
    assert spec.batch_format == "arrow"
    assert spec_of(numbers.map_batches(Pandas())).batch_format == "pandas"


def test_an_object_over_batches_that_cannot_be_called_is_refused(numbers: DataStream[int]) -> None:
    with pytest.raises(InvalidProgramError, match=r"map_batches: 'BadOpen.open' cannot be called as open\(runtime_con"):
        numbers.map_batches(BadOpen())
    with pytest.raises(InvalidProgramError, match="cannot be called with one argument"):
        numbers.map_batches(Many())


# A class in place of an object of it


class Scaled(MapFunction[int, int]):
    def __init__(self, factor: int) -> None:  # one argument, so that the class itself could be called with a record
        self.factor = factor

    def map(self, value: int) -> int:
        return value * self.factor


def test_the_class_of_a_function_is_refused(numbers: DataStream[int]) -> None:
    with pytest.raises(InvalidProgramError, match=r"map: 'Scaled' is a class; pass an object of it, as in Scaled\(\)"):
        numbers.map(Scaled)
    with pytest.raises(InvalidProgramError, match="map_batches: 'OnlyMapBatches' is a class; pass an object of it"):
        numbers.map_batches(OnlyMapBatches)


def test_other_classes_are_functions_of_a_record(numbers: DataStream[int]) -> None:
    assert repr(numbers.map(float).get_type()) == repr(numbers.map(Scaled(2), float).get_type())


class AsyncAssigner(TimestampAssigner[Any]):
    async def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return 0


@pytest.mark.parametrize("assigner", [fetch, AsyncAssigner()])
def test_an_async_timestamp_assigner_is_refused(assigner: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"^with_timestamp_assigner: an async function"):
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)


@pytest.mark.parametrize("rate", [int, "10", True, 0, -1.0])
def test_a_rate_of_a_generator_is_a_number_above_zero(rate: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"^a data generator's rate (is a|must be)"):
        DataGeneratorSource(str, 10, rate)
