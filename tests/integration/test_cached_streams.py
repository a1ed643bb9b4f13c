"""Cached streams: what one job of a program has computed, the next one reads."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from system import Cluster, given, write_job

from millstream.common import Configuration, InvalidProgramError, Time, Types, WatermarkStrategy
from millstream.core.errors import JobExecutionError
from millstream.datastream import (
    DataStream,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millstream.datastream.data_stream import CachedDataStream
from millstream.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.process

ODD = OutputTag("odd", Types.LONG())


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A line for each record that was computed."""
    file = tmp_path / "calls"
    file.touch()
    return file


@pytest.fixture
def env(tmp_path: Path) -> Iterator[StreamExecutionEnvironment]:
    options = {"execution.local.in-process": "true", "execution.cache.dir": str(tmp_path / "kept")}
    made = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    made.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
    yield made
    made.close()


def counted(calls: Path) -> Any:
    def call(value: int) -> int:
        with calls.open("a") as file:
            file.write("called\n")
        return value * 10

    return call


def made(calls: Path) -> int:
    return len(calls.read_text().splitlines())


def tens(env: StreamExecutionEnvironment, calls: Path) -> CachedDataStream:
    return env.from_sequence(1, 1000).map(counted(calls), Types.LONG()).cache()


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return sorted(results)


EXPECTED = [n * 10 for n in range(1, 1001)]


def test_a_later_job_reads_the_cache_of_the_first(env: StreamExecutionEnvironment, calls: Path) -> None:
    cached = tens(env, calls)
    assert collected(cached.map(lambda n: n + 1, Types.LONG())) == [n + 1 for n in EXPECTED]
    assert made(calls) == 1000
    assert collected(cached) == EXPECTED
    assert collected(cached.key_by(lambda n: n % 3).reduce(lambda a, b: a + b)) == sorted(
        sum(n for n in EXPECTED if n % 3 == rest) for rest in range(3)
    )
    assert made(calls) == 1000


def test_an_executed_job_caches_what_it_has_read_and_so_does_one_that_is_awaited(
    env: StreamExecutionEnvironment, calls: Path, tmp_path: Path
) -> None:
    first = tens(env, calls)
    env.execute()
    second = tens(env, calls)
    env.execute_async().get_job_execution_result().result()
    assert made(calls) == 2000
    assert collected(first.union(second)) == sorted(EXPECTED * 2)
    assert made(calls) == 2000


def test_an_invalidated_cache_is_computed_and_stored_again(env: StreamExecutionEnvironment, calls: Path) -> None:
    cached = tens(env, calls)
    for times in (1, 2):
        assert collected(cached) == collected(cached) == EXPECTED
        assert made(calls) == 1000 * times
        cached.invalidate()


def test_a_lost_cache_is_computed_again(env: StreamExecutionEnvironment, calls: Path, tmp_path: Path) -> None:
    cached = tens(env, calls)
    collected(cached)
    (folder,) = (tmp_path / "kept").glob("*/*")
    folder.rename(tmp_path / "elsewhere")
    assert collected(cached) == EXPECTED
    assert made(calls) == 2000


def test_nothing_is_left_when_the_environment_is_closed(
    env: StreamExecutionEnvironment, calls: Path, tmp_path: Path
) -> None:
    collected(tens(env, calls))
    assert list((tmp_path / "kept").glob("*/*/*"))
    env.close()
    assert not list((tmp_path / "kept").glob("*/*"))


def test_a_job_that_fails_caches_nothing(env: StreamExecutionEnvironment, calls: Path, tmp_path: Path) -> None:
    cached = tens(env, calls)
    with pytest.raises(JobExecutionError, match="modulo by zero"):
        collected(cached.map(lambda n: 1 // (n - 10)))
    assert not list((tmp_path / "kept").glob("*/*"))
    assert collected(cached) == EXPECTED
    with cached.map(str).execute_and_collect() as results:
        next(results)  # and stops early, which cancels the job
    assert collected(cached) == EXPECTED


def test_timestamps_are_kept(env: StreamExecutionEnvironment, calls: Path) -> None:
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    cached = tens(env, calls).assign_timestamps_and_watermarks(timed).cache()

    def windows() -> list[Any]:
        hundreds = cached.key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(1000)))
        return collected(hundreds.reduce(lambda a, b: a + b))

    expected = sorted(sum(n for n in EXPECTED if n // 1000 == second) for second in range(11))
    assert windows() == windows() == expected
    latest = cached.key_by(lambda n: n % 20).reduce(lambda a, b: b)
    assert collected(latest) == [9990, 10000], "the records of a key come in the order of their times"
    assert made(calls) == 1000


class Parted(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (ODD, value) if value % 2 else value


def test_side_outputs_columns_and_caches_of_caches(env: StreamExecutionEnvironment, calls: Path) -> None:
    parted = tens(env, calls).map(lambda n: n // 10, Types.LONG()).process(Parted(), Types.LONG())
    odd = parted.get_side_output(ODD).cache()
    columns = odd.map_batches(lambda batch: batch, Types.ROW_NAMED(["value"], [Types.LONG()])).cache()
    expected = list(range(1, 1001, 2))
    for _ in range(2):
        assert sorted(row.value for row in columns.execute_and_collect()) == expected
        assert collected(odd) == expected
    assert made(calls) == 1000


def test_a_cache_is_also_read_in_streaming_mode_but_only_written_in_batch_mode(
    env: StreamExecutionEnvironment, calls: Path
) -> None:
    cached = tens(env, calls)
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    with pytest.raises(InvalidProgramError, match="cache: only a job that is run as a batch keeps records"):
        cached.execute_and_collect()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert collected(cached) == EXPECTED
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert collected(cached) == EXPECTED
    assert made(calls) == 1000


def test_without_a_folder_a_local_program_caches_in_a_temporary_one(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    local = Configuration({"execution.local.in-process": "true", "execution.runtime-mode": "BATCH"})
    cached = tens(StreamExecutionEnvironment.get_execution_environment(local), calls)
    assert collected(cached) == collected(cached) == EXPECTED
    assert made(calls) == 1000
    assert [name for name in os.listdir(tmp_path) if name.startswith("millstream-cache-")]
    del cached
    gc.collect()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("millstream-cache-")]


def test_on_a_cluster_records_of_the_programs_classes_are_cached_once_although_a_task_failed(
    cluster: Cluster, tmp_path: Path
) -> None:
    body = f"""
    from dataclasses import dataclass
    from pathlib import Path
    from millstream.datastream import RuntimeExecutionMode

    FOLDER = Path({str(tmp_path)!r})

    @dataclass(frozen=True)
    class Order:
        number: int

    def order(number):
        with open(FOLDER / "calls", "a") as file:
            file.write("called\\n")
        return Order(number)

    def fail_once(order):
        if order.number == 90 and not (FOLDER / "failed").exists():
            (FOLDER / "failed").touch()
            raise ValueError("once")
        return order

    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    orders = env.from_sequence(1, 100).map(order).rebalance().map(lambda order: order).cache()
    orders.map(fail_once).print()
    env.execute("first")
    before = len((FOLDER / "calls").read_text().splitlines())
    assert (FOLDER / "failed").exists()
    with orders.key_by(lambda order: order).execute_and_collect("second") as results:
        found = [(key, order) for key, order in results]
    assert all(isinstance(order, Order) and key == order for key, order in found)
    assert sorted(order.number for _, order in found) == list(range(1, 101))
    assert len((FOLDER / "calls").read_text().splitlines()) == before
    assert list((FOLDER / "kept").glob("*/*"))
    """
    job = write_job(tmp_path, "cached", dedent(body))
    restarting = given("restart-strategy.type=fixed-delay", "restart-strategy.fixed-delay.delay=0s")
    cluster.run("-p", "2", *restarting, f"-Dexecution.cache.dir={tmp_path / 'kept'}", str(job))
    assert not list((tmp_path / "kept").iterdir()), "the program has ended"


def test_uncacheable_streams_are_refused(env: StreamExecutionEnvironment, calls: Path) -> None:
    numbers = env.from_sequence(1, 10)
    for stream in (numbers.key_by(lambda n: n), numbers.rebalance(), numbers.union(numbers)):
        with pytest.raises(InvalidProgramError, match="cache: what is kept are the records of an operator"):
            stream.cache()
    remote = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "remote"}))
    with pytest.raises(InvalidProgramError, match=r"cache: on a cluster, .* set execution\.cache\.dir"):
        remote.from_sequence(1, 10).cache()
