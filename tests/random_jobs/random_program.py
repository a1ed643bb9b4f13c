"""Builds a random job from its plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import random_oracle as oracle
from random_plans import Node, Plan
from timed_oracle import TIMED
from timed_program import KEY_TYPES, PAIR, TimedParts, awaited, columns

from millstream.common import Types
from millstream.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource, DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
SIDE = OutputTag("side", PAIR)
LANES = OutputTag("side", tuple[str, int])
FORWARDED = ("map", "slow", "filter", "flat_map", "asked", "batches", "split", "ledger", "co_map", "rules")
"""The nodes whose first operator has the node's own parallelism."""


class Built:
    """The streams of a job by name, while it is being built."""

    def __init__(self, env: StreamExecutionEnvironment, plan: Plan, folder: Path) -> None:
        self._env = env
        self._plan = plan
        self._folder = folder
        self._streams: dict[str, DataStream] = {}
        self._nodes = {node.name: node for node in plan.nodes}

    def build(self, collecting: bool = False) -> DataStream | None:
        """Adds everything to the environment; when `collecting`, its ends are one stream in place of sinks."""
        ends: list[DataStream] = []
        for node in self._plan.nodes:
            if collecting and node.kind == "sink" and not oracle.is_ledger(node.inputs[0]):
                ends.append(self._end(node))
                continue
            made = self._timed(node) if node.kind in TIMED else getattr(self, f"_{node.kind}")(node)
            if node.kind not in ("union", "sink"):
                self._set(made, node, node.name)
            if node.kind in ("split", "ledger"):
                self._streams[f"{node.name}!side"] = made.get_side_output(LANES if node.kind == "ledger" else SIDE)
            self._streams[node.name] = made
        return ends[0].union(*ends[1:]) if ends else None

    def _end(self, node: Node) -> DataStream:
        return self._input(node).map(lambda record: (node.inputs[0], (record[0], record[1])))

    def _set(self, made: Any, node: Node, uid: str) -> Any:
        made.name(uid)
        if self._plan.uids:
            made.uid(uid)
        if node.parallelism is not None:
            made.set_parallelism(node.parallelism)
        if node.chaining and (node.kind != "sink" or node.chaining == "disable_chaining"):
            getattr(made, node.chaining)()
        return made

    def _input(self, node: Node, position: int = 0) -> DataStream:
        stream, wanted = self._streams[node.inputs[position]], node.partitions[position]
        producer = self._nodes[node.inputs[position].removesuffix("!side")]
        if wanted == "forward" and (
            node.kind not in FORWARDED or producer.kind == "union" or producer.parallelism != node.parallelism
        ):
            return stream
        if wanted == "custom":
            return stream.partition_custom(lambda key, subtasks: oracle.mix(key) % subtasks, lambda record: record[0])
        return getattr(stream, wanted)() if wanted else stream

    def _keyed(self, node: Node, position: int = 0) -> Any:
        settings = node.settings
        stream = self._input(node, position)
        if settings["key"] == "field":
            return self._inner(node, stream.map(lambda r: (r[0], r[1] % settings["keys"]), PAIR)).key_by(1)
        if settings["key"] == "column":
            stream = self._inner(node, stream.map(lambda r: (r[0], r[1]), PAIR), "rows")
            made = stream.map_batches(lambda batch: _modulo(batch, settings["keys"]), PAIR, "arrow")
            return self._inner(node, made).key_by("f1")
        key_type = KEY_TYPES.get(settings["key"], Types.LONG()) if node.typed else None
        return stream.key_by(lambda record: oracle.key_of(settings, record), key_type)

    def _inner(self, node: Node, stream: DataStream, what: str = "inner") -> DataStream:
        """An operator that a node needs in addition to the one with its name."""
        return stream.uid(f"{node.name}-{what}") if self._plan.uids else stream

    def _source(self, node: Node) -> DataStream:
        settings, env = node.settings, self._env
        count, rate = settings["count"], settings["count"] / settings["seconds"]
        match settings["form"]:
            case "columns":
                return env.from_source(ColumnDataGeneratorSource(partial(columns, settings), count, rate, 40, PAIR))
            case "sequence":
                return self._inner(node, env.from_sequence(0, count - 1)).map(partial(_slowly, settings), PAIR)
            case "collection":
                records = [oracle.source(settings, index) for index in range(count)]
                return env.from_source(CollectionSource(records, PAIR))
            case "files":
                files = self._files(node.name, settings)
                lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(files)).build()
                return self._inner(node, env.from_source(lines)).map(partial(_slowly, settings), PAIR)
        return env.from_source(DataGeneratorSource(lambda index: oracle.source(settings, index), count, rate, PAIR))

    def _timed(self, node: Node) -> DataStream:
        return TimedParts(self._env, node, lambda stream, what: self._inner(node, stream, what)).build()

    def _files(self, name: str, settings: dict[str, Any]) -> Path:
        folder = self._folder / f"input-{name}"
        folder.mkdir(exist_ok=True)
        for number in range(settings["files"]):
            lines = (f"{index}\n" for index in range(number, settings["count"], settings["files"]))
            (folder / f"{number}.txt").write_text("".join(lines))
        return folder

    def _map(self, node: Node) -> DataStream:
        return self._input(node).map(lambda record: oracle.mapped(node.settings, record)[0], _type(node))

    def _slow(self, node: Node) -> DataStream:
        seconds = node.settings["millis"] / 1000
        return self._input(node).map(lambda record: (time.sleep(seconds), tuple(record))[1], _type(node))

    def _filter(self, node: Node) -> DataStream:
        return self._input(node).filter(lambda record: oracle.filtered(node.settings, record))

    def _flat_map(self, node: Node) -> DataStream:
        return self._input(node).flat_map(lambda record: oracle.multiplied(node.settings, record), _type(node))

    def _asked(self, node: Node) -> DataStream:
        return awaited(self._input(node), partial(oracle.answered, node.settings), node.settings, _type(node))

    def _batches(self, node: Node) -> DataStream:
        function = _in_arrow if node.settings["form"] == "arrow" else _in_pandas
        salt = node.settings["salt"]
        return self._input(node).map_batches(lambda batch: function(batch, salt), _type(node), node.settings["form"])

    def _union(self, node: Node) -> DataStream:
        first, *others = (self._input(node, position) for position in range(len(node.inputs)))
        return first.union(*others)

    def _split(self, node: Node) -> DataStream:
        return self._input(node).process(Split(node.settings), _type(node))

    def _count(self, node: Node) -> DataStream:
        return self._keyed(node).process(Count(node), _type(node))

    def _reduce(self, node: Node) -> DataStream:
        settings, kind = node.settings, KEY_TYPES.get(node.settings["key"], Types.LONG())
        ones = Types.TUPLE([kind, Types.LONG()])
        keyed = self._inner(node, self._input(node).map(lambda r: (oracle.key_of(settings, r), 1), ones)).key_by(0)
        totals = keyed.sum(1) if settings["form"] == "sum" else keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))
        return self._inner(node, totals, "totals").map(lambda total: oracle.counted(node.name, *total), _type(node))

    def _gather(self, node: Node) -> DataStream:
        return self._keyed(node).process(Gather(node), _type(node))

    def _co_count(self, node: Node) -> DataStream:
        return self._keyed(node).connect(self._keyed(node, 1)).process(CoCount(node), _type(node))

    def _join(self, node: Node) -> DataStream:
        return self._keyed(node).connect(self._keyed(node, 1)).process(Join(), _type(node))

    def _co_map(self, node: Node) -> DataStream:
        connected = self._input(node).connect(self._input(node, 1))
        match node.settings["form"]:
            case "map":
                pair = (lambda record: oracle.from_either(1, record), lambda record: oracle.from_either(2, record))
                return connected.map(pair, _type(node))
            case "flat_map":
                lists = (lambda record: [oracle.from_either(1, record)], lambda record: [oracle.from_either(2, record)])
                return connected.flat_map(lists, _type(node))
        process = (lambda value, ctx: [oracle.from_either(1, value)], lambda value, ctx: [oracle.from_either(2, value)])
        return connected.process(process, _type(node))

    def _rules(self, node: Node) -> DataStream:
        return self._input(node).connect(self._rule_stream(node)).process(Rules(node.settings["rules"]), _type(node))

    def _keyed_rules(self, node: Node) -> DataStream:
        return self._keyed(node).connect(self._rule_stream(node)).process(KeyedRules(node), _type(node))

    def _rule_stream(self, node: Node) -> Any:
        return self._streams[node.inputs[1]].broadcast(RULES)

    def _ledger(self, node: Node) -> DataStream:
        return self._input(node).process(Ledger(), _type(node))

    def _share(self, node: Node) -> DataStream:
        return self._streams[node.inputs[0]].broadcast().process(Share(), _type(node))

    def _sink(self, node: Node) -> Any:
        settings = node.settings
        folder = str(self._folder / "output" / node.inputs[0])
        match settings["format"]:
            case "text":
                sink = FileSink.for_row_format(folder)
            case "csv":
                sink = FileSink.for_csv(folder, PAIR, header=False)
            case "parquet":
                sink = FileSink.for_parquet(folder, PAIR)
            case _:
                sink = FileSink.for_json_lines(folder)
        policies = {
            "checkpoint": RollingPolicy.on_checkpoint_rolling_policy(),
            "size": RollingPolicy.default_rolling_policy(part_size=600),
            "time": RollingPolicy.default_rolling_policy(1 << 30, 300, 200),
        }
        sink = sink.with_rolling_policy(policies[settings["policy"]]).with_bucket_check_interval(100)
        if oracle.is_ledger(node.inputs[0]):
            return self._set(self._input(node).sink_to(sink), node, node.name)
        if settings["format"] == "text":
            records = self._input(node).map(lambda record: f"[{record[0]}, {record[1]}]", Types.STRING())
        else:
            records = self._input(node).map(lambda record: (record[0], record[1]), PAIR)
        return self._set(self._inner(node, records).sink_to(sink), node, node.name)


def _type(node: Node) -> Any:
    return PAIR if node.typed else None


def _slowly(settings: dict[str, Any], index: int | str) -> oracle.Record:
    time.sleep(settings["seconds"] / settings["count"])
    return oracle.source(settings, int(index))


def _in_arrow(batch: Any, salt: int) -> Any:
    import pyarrow.compute as pc

    ids, values = (pc.cast(batch.column(position), "int64") for position in (0, 1))
    fives = pc.multiply(pc.divide(values, 5), 5)
    return batch.from_arrays([pc.add(ids, salt), values], names=["f0", "f1"]).filter(pc.not_equal(fives, values))


def _in_pandas(frame: Any, salt: int) -> Any:
    frame = frame[frame["f1"] % 5 != 0]
    return frame.assign(f0=frame["f0"] + salt)


def _modulo(batch: Any, keys: int) -> Any:
    import pyarrow.compute as pc

    values = batch.column(1)
    rest = pc.subtract(values, pc.multiply(pc.divide(values, keys), keys))
    return batch.from_arrays([batch.column(0), rest], names=["f0", "f1"])


class Split(ProcessFunction):
    """Some records go to the side output."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (SIDE, tuple(value)) if oracle.sided(self._settings, value) else tuple(value)


class Total(AggregateFunction):
    """Counts and sums."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc1: tuple[int, int], acc2: tuple[int, int]) -> tuple[int, int]:
        return acc1[0] + acc2[0], acc1[1] + acc2[1]


class Stateful:
    """State of every kind, typed or not."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def open(self, runtime_context: RuntimeContext) -> None:
        def typed(kind: Any) -> Any:
            return kind if self._node.typed else None

        self._value = runtime_context.get_state(ValueStateDescriptor("value", typed(Types.LONG())))
        self._list = runtime_context.get_list_state(ListStateDescriptor("list", typed(PAIR)))
        self._map = runtime_context.get_map_state(MapStateDescriptor("map", typed(Types.LONG()), typed(Types.LONG())))
        self._reducing = runtime_context.get_reducing_state(
            ReducingStateDescriptor("reducing", lambda a, b: a + b, typed(Types.LONG()))
        )
        self._aggregating = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", Total(), typed(PAIR))
        )

    def add(self, kind: str, record: Any) -> int:
        """Adds a record to a state; returns how many the state has received."""
        match kind:
            case "list":
                self._list.add(tuple(record))
                return len(self._list.get())
            case "map":
                self._map.put(record[0], (self._map.get(record[0]) or 0) + 1)
                return sum(self._map.values())
            case "reducing":
                self._reducing.add(1)
                return self._reducing.get() or 0
            case "aggregating":
                self._aggregating.add(record[0])
                return self._aggregating.get()[0]
        count = (self._value.value() or 0) + 1
        self._value.update(count)
        return count


class Count(Stateful, KeyedProcessFunction):
    """Each key's records, numbered."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = self.add(self._node.settings["state"], value)
        yield oracle.counted(self._node.name, ctx.get_current_key(), count)


class Gather(Stateful, KeyedProcessFunction):
    """Emits everything about a key once it has all records: then all its states have to agree."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key = ctx.get_current_key()
        counts = {self.add(kind, value) for kind in ("value", "list", "map", "reducing", "aggregating")}
        if len(counts) != 1:
            raise AssertionError(f"the states of key {key} have seen {counts} records")
        if counts == {self._node.settings["expected"][repr(key)]}:
            ids = [record[0] for record in self._list.get()]
            if sum(ids) != self._aggregating.get()[1]:
                raise AssertionError(f"the states of key {key} hold other records")
            yield oracle.gathered(self._node.name, key, ids)


class CoCount(Stateful, KeyedCoProcessFunction):
    """Each key's records of both inputs, numbered."""

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield oracle.counted(self._node.name, ctx.get_current_key(), self.add("value", value))

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield oracle.counted(self._node.name, ctx.get_current_key(), self.add("value", value))


class Join(KeyedCoProcessFunction):
    """Joins every record of one side with every one of the other."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._left = runtime_context.get_list_state(ListStateDescriptor("left", PAIR))
        self._right = runtime_context.get_list_state(ListStateDescriptor("right", PAIR))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self._left.add(tuple(value))
        for other in self._right.get():
            yield oracle.joined(tuple(value), tuple(other))

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self._right.add(tuple(value))
        for other in self._left.get():
            yield oracle.joined(tuple(other), tuple(value))


class Rules(BroadcastProcessFunction, CheckpointedFunction):
    """Keeps records in a list until all rules have arrived."""

    def __init__(self, count: int) -> None:
        self._count = count

    def initialize_state(self, context: Any) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting", PAIR))
        self._waiting = list(self._state.get())

    def snapshot_state(self, context: Any) -> None:
        self._state.update(self._waiting)

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self._waiting.append(tuple(value))
        yield from self._ready(dict(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        state.put(*oracle.rule(value, self._count))
        yield from self._ready(dict(state.items()))

    def _ready(self, rules: dict[int, int]) -> Iterator[Any]:
        if len(rules) == self._count:
            waiting, self._waiting = self._waiting, []
            yield from (oracle.ruled(record, rules) for record in waiting)


class KeyedRules(Stateful, KeyedBroadcastProcessFunction):
    """Numbers the records of each key, and checks the rules."""

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        for rule, content in ctx.get_broadcast_state(RULES).items():
            if oracle.source(self._node.settings, rule)[1] != content:
                raise AssertionError(f"rule {rule} is {content}")
        yield oracle.counted(self._node.name, ctx.get_current_key(), self.add("value", value))

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(value[0] - self._node.settings["first"], value[1])


class Ledger(ProcessFunction, CheckpointedFunction):
    """Numbers records in lanes. A lane is an element of a list state: it continues only where it is restored."""

    def open(self, runtime_context: RuntimeContext) -> None:
        if not self._lanes:
            place = (runtime_context.get_job_id()[:6], self._restored, runtime_context.get_index_of_this_subtask())
            self._lanes[str(place)] = 0
        self._parallelism = runtime_context.get_number_of_parallel_subtasks()
        self._index = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._own = store.get_list_state(ListStateDescriptor("own", tuple[str, int]))
        self._all = store.get_union_list_state(ListStateDescriptor("all", tuple[int, int, str, int]))
        self._restored = context.get_restored_checkpoint_id()
        everything = [tuple(entry) for entry in self._all.get()]
        self._lanes = dict(self._own.get())
        if not set(self._lanes.items()) <= {entry[2:] for entry in everything}:
            raise AssertionError(f"lanes {self._lanes} are not among {everything}")
        subtasks = {entry[0] for entry in everything}
        if everything and (subtasks != set(range(everything[0][1])) or len(set(everything)) < len(everything)):
            raise AssertionError(f"of the union list there is only {everything}")

    def snapshot_state(self, context: Any) -> None:
        self._own.update(list(self._lanes.items()))
        self._all.update([(self._index, self._parallelism, *lane) for lane in self._lanes.items()])

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        lane = min(self._lanes)
        self._lanes[lane] += 1
        yield tuple(value)
        yield LANES, (lane, self._lanes[lane])


class Share(ProcessFunction):
    """Every subtask receives every record, and keeps its share."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtasks = runtime_context.get_number_of_parallel_subtasks()
        self._index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value[0] % self._subtasks == self._index:
            yield tuple(value)
