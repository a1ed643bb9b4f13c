"""The program of a job, as the client sends it to tasks: operator specifications, chains of them, and partitioners.

These objects are pickled by cloudpickle into the job graph, and loaded only in the job's own environment. A
specification describes an operator and declares its requirements; the task manager implements it
(`millstream.taskmanager.worker.operators`).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.state_kinds import KEYED, OPERATOR, StateKind
from millstream.core.overriding import override
from millstream.core.records.types import PICKLED, TypeInformation


class KeySelector(Struct, frozen=True):
    """Selects the key of a record: by field names or positions (which also works on columns), or by a function.

    Exactly one of `fields` and `function` is set. The key is the value of one field, or a tuple of several.
    """

    fields: tuple[str | int, ...] = ()
    function: Any = None  # a callable, or a millstream.datastream.functions.KeySelector


class BatchInput(Enum):
    """The order in which an operator receives its records when the job is run as a batch."""

    AS_IT_COMES = "as it comes"
    KEY_BY_KEY = "key by key"  # all records of a key, in the order of their timestamps, then those of another
    SECOND_FIRST = "second first"  # all records of the second input, then those of the first


class OperatorSpec:
    """Base of all specifications: the properties of an operator that other code needs, independent of its class.

    A new operator consists of a class derived from this one, the method of the API that creates it, and its file in
    `millstream.taskmanager.worker.operators`, which is marked with `builds` for this class.
    """

    __slots__ = ()

    inputs: ClassVar[int] = 1
    """The number of its inputs."""
    prefix: ClassVar[str] = ""
    """The prefix that is shown before its name."""
    is_the_clients: ClassVar[bool] = False
    """Whether it was added implicitly, without a name or uid of the user."""
    is_sink: ClassVar[bool] = False
    """Whether it is a sink."""
    makes_columns: ClassVar[bool] = False
    """Whether its function returns columns, which may be mutable regardless of the declared type."""

    @property
    def kind(self) -> str:
        """A stable name of the kind of operator, from which ids of operators without a uid are derived."""
        raise NotImplementedError

    @property
    def has_side_outputs(self) -> bool:
        """Whether it may emit to side outputs of any tag."""
        return False

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """The key selectors of its inputs, if it keeps state by key."""
        return ()

    def held_state(self) -> frozenset[StateKind]:
        """The kinds of state that it can hold; those of a checkpointed function are added by the API."""
        return KEYED if self.keyed_by() else frozenset()

    @property
    def makes_event_time(self) -> bool:
        """Whether its output records have timestamps."""
        return False

    @property
    def reads_timestamps(self) -> bool:
        """Whether it or user code in it may read the timestamps of its records, or keeps them in its state.

        Otherwise its results have the timestamps of their input records, or new ones.
        """
        return True

    def batch_input(self, timed: bool) -> BatchInput:
        """Returns the order of its input records in a batch; `timed`: whether they have timestamps."""
        return BatchInput.KEY_BY_KEY if self.keyed_by() else BatchInput.AS_IT_COMES

    def in_batch(self) -> OperatorSpec:
        """Returns the operator that replaces it in a batch."""
        return self

    def user_code(self) -> tuple[Any, ...]:
        """Returns its user code, for messages about objects that cannot be pickled."""
        return tuple([selector.function for selector in self.keyed_by() if selector.function is not None])

    def keeps_records(self) -> bool:
        """Whether it may keep records that it emitted: these are copied when they are passed on."""
        return True


class FunctionSpec(OperatorSpec, Struct, frozen=True):
    """Base of operators with one user function, which they open and close."""

    function: Any

    def user_code(self) -> tuple[Any, ...]:
        """Returns the function, and key selectors."""
        return (self.function, *OperatorSpec.user_code(self))


class SourceSpec(OperatorSpec, Struct, frozen=True):
    """A split-based source; its readers run in the tasks."""

    inputs = 0
    prefix = "Source: "
    kind = "source"
    source: Any  # millstream.datastream.connectors.base.Source
    strategy: Any = None  # millstream.common.WatermarkStrategy

    @override
    def held_state(self) -> frozenset[StateKind]:
        return frozenset({StateKind.SPLITS})

    @property
    def makes_event_time(self) -> bool:
        """Whether there is a strategy; timestamps of the source itself are not known here."""
        return self.strategy is not None

    def in_batch(self) -> OperatorSpec:
        """Event time does not advance until the end."""
        return self if self.strategy is None else replace(self, strategy=self.strategy.without_watermarks())

    def user_code(self) -> tuple[Any, ...]:
        """Returns the source and its watermark strategy."""
        return (self.source,) if self.strategy is None else (self.source, self.strategy)

    @override
    def keeps_records(self) -> bool:
        return bool(self.source.keeps_records())


class TimestampsSpec(OperatorSpec, Struct, frozen=True):
    """Assigns timestamps and watermarks by the strategy."""

    kind = "timestamps"
    makes_event_time = True
    strategy: Any  # millstream.common.WatermarkStrategy

    @property
    def reads_timestamps(self) -> bool:
        """A timestamp assigner receives the record's previous timestamp; without an assigner, it is kept."""
        return self.strategy.timestamp_field is None

    def in_batch(self) -> OperatorSpec:
        """Event time does not advance until the end."""
        return replace(self, strategy=self.strategy.without_watermarks())

    @override
    def user_code(self) -> tuple[Any, ...]:
        return (self.strategy,)

    def keeps_records(self) -> bool:
        """It only reads them."""
        return False


class MapSpec(FunctionSpec, frozen=True):
    """One record in, one out. `function` is a callable or a MapFunction."""

    kind = "map"
    reads_timestamps = False


class FlatMapSpec(FunctionSpec, frozen=True):
    """One record in, any number out: an iterable or a generator."""

    kind = "flat_map"
    reads_timestamps = False


class FilterSpec(FunctionSpec, frozen=True):
    """Keeps the records for which the function returns true."""

    kind = "filter"
    reads_timestamps = False


class ProcessSpec(FunctionSpec, frozen=True):
    """A ProcessFunction."""

    kind = "process"
    has_side_outputs = True


class KeyedProcessSpec(FunctionSpec, frozen=True):
    """A KeyedProcessFunction on a keyed stream, or one that implements an operator of another kind."""

    key_selector: KeySelector
    key_type: TypeInformation = PICKLED
    stands_for: str = ""

    @property
    def kind(self) -> str:
        """Its own, or that of the operator that the user chose."""
        return self.stands_for or "keyed_process"

    @property
    def has_side_outputs(self) -> bool:
        """True, unless it implements an operator that has none."""
        return not self.stands_for

    @override
    def keyed_by(self) -> tuple[KeySelector, ...]:
        return (self.key_selector,)


class ReduceSpec(FunctionSpec, frozen=True):
    """A rolling reduce per key: emits the new value for every record, or only the last of each key at the end.

    `function` is a callable `(old, new) -> value`, or a ReduceFunction.
    """

    kind = "reduce"
    reads_timestamps = False
    key_selector: KeySelector
    key_type: TypeInformation = PICKLED
    value_type: TypeInformation = PICKLED
    only_last: bool = False

    @override
    def keyed_by(self) -> tuple[KeySelector, ...]:
        return (self.key_selector,)

    def batch_input(self, timed: bool) -> BatchInput:
        """Without timestamps no sorting is needed, since only one value per key is kept."""
        return BatchInput.KEY_BY_KEY if timed else BatchInput.AS_IT_COMES

    def in_batch(self) -> OperatorSpec:
        """Only the results count."""
        return replace(self, only_last=True)


class InputKeys(Struct, frozen=True):
    """The keys of an operator's inputs, in their order: None for those that are broadcast, which come last."""

    selectors: tuple[KeySelector | None, ...]
    key_type: TypeInformation = PICKLED


class TwoInputKeys(Struct, frozen=True):
    """The keys of two connected streams. The second is None when that stream is broadcast to every subtask."""

    first: KeySelector
    second: KeySelector | None
    key_type: TypeInformation = PICKLED

    @property
    def selectors(self) -> tuple[KeySelector | None, ...]:
        """Of both streams."""
        return (self.first, self.second)


class MultipleInputSpec(OperatorSpec):
    """Base of operators with several inputs, each with a type of its own; they are keyed when `keys` is set."""

    __slots__ = ()
    keys: InputKeys | TwoInputKeys | None

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """Of the inputs that are not broadcast."""
        return () if self.keys is None else tuple([one for one in self.keys.selectors if one is not None])


class ConnectedSpec(MultipleInputSpec):
    """Base of operators on two connected streams; they are keyed when `keys` is set."""

    __slots__ = ()
    inputs = 2
    keys: TwoInputKeys | None


class CoMapSpec(FunctionSpec, ConnectedSpec, frozen=True):
    """A CoMapFunction on two connected streams. `keys` is set when both are keyed."""

    kind = "co_map"
    reads_timestamps = False
    keys: TwoInputKeys | None = None


class CoFlatMapSpec(FunctionSpec, ConnectedSpec, frozen=True):
    """A CoFlatMapFunction on two connected streams. `keys` is set when both are keyed."""

    kind = "co_flat_map"
    reads_timestamps = False
    keys: TwoInputKeys | None = None


class CoProcessSpec(FunctionSpec, ConnectedSpec, frozen=True):
    """A CoProcessFunction or a KeyedCoProcessFunction on two connected streams. `keys` is set when both are keyed."""

    has_side_outputs = True
    keys: TwoInputKeys | None = None

    @property
    def kind(self) -> str:
        """By whether it is keyed."""
        return "co_process" if self.keys is None else "keyed_co_process"


class BroadcastProcessSpec(FunctionSpec, ConnectedSpec, frozen=True):
    """A (Keyed)BroadcastProcessFunction on a stream and a broadcast one, which alone writes the broadcast states."""

    has_side_outputs = True
    descriptors: tuple[Any, ...]  # millstream.datastream.state.MapStateDescriptor
    keys: TwoInputKeys | None = None

    @property
    def kind(self) -> str:
        """By whether the first stream is keyed."""
        return "broadcast_process" if self.keys is None else "keyed_broadcast_process"

    def batch_input(self, timed: bool) -> BatchInput:
        """The states are complete before they are read."""
        return BatchInput.SECOND_FIRST if self.keys is None else BatchInput.KEY_BY_KEY

    def held_state(self) -> frozenset[StateKind]:
        """The broadcast states, and by key where it is keyed."""
        return OperatorSpec.held_state(self) | OPERATOR


class MapBatchesSpec(FunctionSpec, frozen=True):
    """A function over Arrow record batches or pandas data frames."""

    kind = "map_batches"
    reads_timestamps = False
    makes_columns = True
    batch_format: str  # "arrow" or "pandas": what the function takes


class SinkSpec(OperatorSpec, Struct, frozen=True):
    """A sink; its writers run in the tasks."""

    prefix = "Sink: "
    is_sink = True
    kind = "sink"
    sink: Any  # millstream.datastream.connectors.base.Sink

    @property
    def reads_timestamps(self) -> bool:
        """As the sink declares."""
        return bool(self.sink.reads_timestamps)

    def held_state(self) -> frozenset[StateKind]:
        """Of an exactly-once sink, its transactions."""
        return frozenset({StateKind.SINK_TRANSACTIONS}) if self.sink.is_transactional else frozenset()

    @override
    def user_code(self) -> tuple[Any, ...]:
        return (self.sink,)


class CommittingWriterSpec(OperatorSpec, Struct, frozen=True):
    """The writers of a sink with one committer, which follows them: a `SinkSpec`."""

    prefix = "Sink: "
    is_sink = True
    kind = "committing writer"
    sink: Any  # millstream.datastream.connectors.global_commit.GlobalCommitSink

    @property
    def reads_timestamps(self) -> bool:
        """As the sink declares."""
        return bool(self.sink.reads_timestamps)

    @override
    def user_code(self) -> tuple[Any, ...]:
        return (self.sink,)

    def keeps_records(self) -> bool:
        """Returns False: what it emits is for the committer alone."""
        return False


class CollectSpec(OperatorSpec, Struct, frozen=True):
    """Keeps results until the client requests them."""

    prefix = "Sink: "
    is_sink = True
    kind = "collect"
    reads_timestamps = False
    is_the_clients = True

    def held_state(self) -> frozenset[StateKind]:
        """What the client has not confirmed."""
        return OPERATOR


class ChainedOutput(Struct, frozen=True):
    """The target of an operator's records in its chain: another operator, or an output of the task."""

    operator: int | None = None  # index into Chain.operators
    output: int | None = None  # index of the task's outputs
    tag: str | None = None  # a side output's id; None: the main output
    tag_type: TypeInformation = PICKLED  # of a side output's records
    edge: str = ""  # to another operator: what the edge is named, as in EdgeSpec
    timed: bool = True  # whether a downstream operator may read timestamps


class ChainedOperator(Struct, frozen=True):
    """One operator of a chain. `output_type` is the type of its main output."""

    operator_id: str
    name: str
    spec: OperatorSpec
    output_type: TypeInformation
    outputs: tuple[ChainedOutput, ...]
    uid: str = ""  # the user's, or empty
    batch_input: BatchInput = BatchInput.AS_IT_COMES

    @property
    def folder(self) -> str:
        """The folder of its state files in a snapshot: its uid, or its id if it has none."""
        return self.uid or self.operator_id

    def type_of(self, output: ChainedOutput) -> TypeInformation:
        """Returns the type of one of its outputs."""
        return self.output_type if output.tag is None else output.tag_type


class Chain(Struct, frozen=True):
    """The operators of one vertex, in topological order: a tree whose head, index 0, receives the task's input."""

    operators: tuple[ChainedOperator, ...]


class ForwardPartitioner(Struct, frozen=True):
    """Subtask i to subtask i."""


class RebalancePartitioner(Struct, frozen=True):
    """Round robin over all consumers."""


class RescalePartitioner(Struct, frozen=True):
    """Round robin over the consumers of this producer's share."""


class ShufflePartitioner(Struct, frozen=True):
    """A random consumer."""


class BroadcastPartitioner(Struct, frozen=True):
    """Every consumer."""


class GlobalPartitioner(Struct, frozen=True):
    """The first consumer."""


class HashPartitioner(Struct, frozen=True):
    """The consumer that owns the key's group."""

    key_selector: KeySelector


class CustomPartitioner(Struct, frozen=True):
    """The consumer that the user's function returns: `partitioner(key, number of consumers)`."""

    partitioner: Any  # a callable, or a millstream.datastream.functions.Partitioner
    key_selector: KeySelector


Partitioner = (
    ForwardPartitioner
    | RebalancePartitioner
    | RescalePartitioner
    | ShufflePartitioner
    | BroadcastPartitioner
    | GlobalPartitioner
    | HashPartitioner
    | CustomPartitioner
)

STRATEGY_NAMES: dict[type, str] = {
    ForwardPartitioner: "FORWARD",
    RebalancePartitioner: "REBALANCE",
    RescalePartitioner: "RESCALE",
    ShufflePartitioner: "SHUFFLE",
    BroadcastPartitioner: "BROADCAST",
    GlobalPartitioner: "GLOBAL",
    HashPartitioner: "HASH",
    CustomPartitioner: "CUSTOM",
}


def partitioner_code(partitioner: Partitioner) -> tuple[Any, ...]:
    """Returns the user code of a partitioner."""
    match partitioner:
        case HashPartitioner(KeySelector(_, function)):
            return () if function is None else (function,)
        case CustomPartitioner(chosen_by, KeySelector(_, function)):
            return (chosen_by,) if function is None else (chosen_by, function)
    return ()


class EdgeSpec(Struct, frozen=True):
    """An edge, as its two ends see it: the partitioner, the type of records, and the buffer timeout."""

    partitioner: Partitioner
    type: TypeInformation
    max_parallelism: int  # of the consumer: the number of key groups
    buffer_timeout: float | None = None  # seconds; None: as configured; negative: only when full
    source: str = ""  # the id of the operator whose records these are
    name: str = "0"  # the same for the same two operators, however they are chained with others
