"""Sources and sinks: those that there are, ones of the program, asynchronous functions and functions over batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import millstream
from millstream.common import Configuration, Encoder, Row, SimpleStringSchema, Time, Types, WatermarkStrategy
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream import (
    AsyncDataStream,
    CheckpointingMode,
    DataStream,
    MapBatchesFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.connectors import FileSink, FileSource, NumberSequenceSource, StreamFormat
from millstream.datastream.connectors.base import (
    Boundedness,
    PollStatus,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.functions import (
    AsyncFunction,
    AsyncRetryStrategy,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    Partitioner,
    SinkContext,
    SourceContext,
)


@dataclass
class Event:
    id: int
    name: str


class Ticks(SourceFunction[Event]):
    def run(self, ctx: SourceContext[Event]) -> None:
        number = 0
        while not ctx.is_cancelled():
            with ctx.get_checkpoint_lock():
                ctx.collect_with_timestamp(Event(number, "tick"), number)
            number += 1


class Collected(SinkFunction[Event]):
    def invoke(self, value: Event, context: SinkContext) -> None:
        print(value.name, context.timestamp())


@dataclass
class Part:
    split_id: str
    position: int


class PartReader(SourceReader[Part]):
    def __init__(self, context: SourceReaderContext) -> None:
        self.context = context
        self.parts: list[Part] = []

    def start(self) -> None:
        self.context.send_split_request()

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        if not self.parts:
            return PollStatus.END_OF_INPUT
        return RowBatch([self.parts.pop().position])

    def add_splits(self, splits: list[Part]) -> None:
        self.parts += splits

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[Part]:
        return self.parts


class PartEnumerator(SplitEnumerator[Part]):
    def __init__(self, context: SplitEnumeratorContext[Part]) -> None:
        self.context = context

    def handle_split_request(self, subtask: int, host: str) -> None:
        self.context.assign_splits([Part("a", 1)], subtask)

    def add_splits_back(self, splits: list[Part], subtask: int) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return None


class Parts(Source[Part]):
    """As before sources had a type of records."""

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[Part]) -> SplitEnumerator[Part]:
        return PartEnumerator(context)

    def restore_enumerator(self, context: SplitEnumeratorContext[Part], state: Any) -> SplitEnumerator[Part]:
        return PartEnumerator(context)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Part]:
        return PartReader(context)


class TypedParts(Parts, Source[Part, int]):
    """With the type of its records."""


class PrintWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        print(len(batch))


class Printing(Sink[str]):
    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return PrintWriter()


class Lookup(AsyncFunction[int, str]):
    async def async_invoke(self, value: int) -> list[str]:
        await asyncio.sleep(0)
        return [str(value)]

    def timeout(self, value: int) -> list[str]:
        return ["late"]


class Doubled(MapBatchesFunction):
    def map_batches(self, batch: Any) -> Any:
        return batch


class Duck:
    def open(self, runtime_context: RuntimeContext) -> None: ...

    def close(self) -> None: ...

    def map_batches(self, batch: Any) -> Any:
        return batch


class Even(FilterFunction[int]):
    def filter(self, value: int) -> bool:
        return value % 2 == 0


class Digits(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[str]:
        yield from str(value)


class Parity(KeySelector[int, bool]):
    def get_key(self, value: int) -> bool:
        return value % 2 == 0


class First(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return 0


def numbers(env: StreamExecutionEnvironment) -> DataStream[int]:
    return env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "Numbers")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)
    print(millstream.__version__.split("."))
    stream = numbers(env)
    env.from_source(Parts(), None, "parts").map(lambda anything: anything.position + 1).print()
    env.from_source(TypedParts(), None, "parts").map(lambda number: number.bit_length()).print()
    env.from_source(Parts(), None, "parts", Types.INT()).map(lambda number: number.bit_length()).print()
    env.add_source(Ticks(), "ticks").map(lambda event: event.name).sink_to(Printing())
    env.add_source(Ticks(), type_info=Event).add_sink(Collected()).name("collected").set_parallelism(1)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    lines.map(lambda line: line.strip()).sink_to(
        FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()
    )
    rows = env.from_source(FileSource.for_json_lines("in", type_info=Types.ROW_NAMED(["a"], [Types.INT()])), None, "j")
    rows.map(lambda row: row.a).print()
    generated = DataGeneratorSource(lambda n: Event(n, "x"), 10)
    env.from_source(generated, None, "generated", Event).key_by("name").sum("id").print()
    looked = AsyncDataStream.unordered_wait(stream, Lookup(), Time.seconds(5), 10, Types.STRING())
    looked.map(lambda name: name.upper()).print()
    again = AsyncRetryStrategy.fixed_delay(3, 100)
    AsyncDataStream.ordered_wait_with_retry(stream, Lookup(), Time.seconds(5), again).map(str.lower).print()
    stream.map_batches(Doubled(), output_type=int).map(lambda number: number + 1).print()
    stream.map_batches(Duck()).print()
    stream.map_batches(lambda batch: batch, batch_format="pandas").print()
    stream.filter(Even()).flat_map(Digits()).print()
    stream.key_by(Parity()).process(lambda number, ctx: [ctx.get_current_key()]).filter(lambda even: not even).print()
    stream.partition_custom(First(), lambda number: number).partition_custom(lambda key, n: key % n, Parity()).print()
    stream.map(lambda number: Row(number, "x"), Types.ROW([Types.INT(), Types.STRING()])).project(0).print()
    with stream.map(lambda number: number / 2).execute_and_collect("halves") as halves:
        print([half.is_integer() for half in halves])
    print(SimpleStringSchema().serialize("x"), [n.bit_length() for n in stream.execute_and_collect(limit=3)])
    client = env.execute_async("job")
    print(client.get_job_id())


if __name__ == "__main__":
    main()
