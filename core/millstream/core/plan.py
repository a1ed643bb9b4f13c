"""What the client hands to the tasks: operator specifications, chains of them, and how edges partition.

These objects travel as cloudpickle inside the job graph and are loaded only in the job's own environment. A
specification says what to run; the task manager decides how (`millstream.taskmanager.operators`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.core.types import PICKLED, TypeInformation


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A split-based source; its readers run in the tasks."""

    source: Any  # millstream.datastream.connectors.base.Source


@dataclass(frozen=True, slots=True)
class MapSpec:
    """One record in, one out. `function` is a callable or a MapFunction."""

    function: Any


@dataclass(frozen=True, slots=True)
class FlatMapSpec:
    """One record in, any number out: an iterable or a generator."""

    function: Any


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """Keeps the records for which the function answers true."""

    function: Any


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A ProcessFunction."""

    function: Any


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec:
    """A KeyedProcessFunction on a keyed stream."""

    function: Any
    key_selector: KeySelector
    key_type: TypeInformation = PICKLED


@dataclass(frozen=True, slots=True)
class ReduceSpec:
    """A rolling reduce per key: emits the new value for every record."""

    function: Any  # callable (old, new) -> value, or a ReduceFunction
    key_selector: KeySelector
    key_type: TypeInformation = PICKLED
    value_type: TypeInformation = PICKLED


@dataclass(frozen=True, slots=True)
class TwoInputKeys:
    """The keys of two connected streams. The second is None when that stream is broadcast to every subtask."""

    first: KeySelector
    second: KeySelector | None
    key_type: TypeInformation = PICKLED


@dataclass(frozen=True, slots=True)
class CoMapSpec:
    """A CoMapFunction on two connected streams. `keys` is set when both are keyed."""

    function: Any
    keys: TwoInputKeys | None = None


@dataclass(frozen=True, slots=True)
class CoFlatMapSpec:
    """A CoFlatMapFunction on two connected streams. `keys` is set when both are keyed."""

    function: Any
    keys: TwoInputKeys | None = None


@dataclass(frozen=True, slots=True)
class CoProcessSpec:
    """A CoProcessFunction or a KeyedCoProcessFunction on two connected streams. `keys` is set when both are keyed."""

    function: Any
    keys: TwoInputKeys | None = None


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec:
    """A (Keyed)BroadcastProcessFunction on a stream and a broadcast one, which alone writes the broadcast states."""

    function: Any
    descriptors: tuple[Any, ...]  # millstream.datastream.state.MapStateDescriptor
    keys: TwoInputKeys | None = None


@dataclass(frozen=True, slots=True)
class MapBatchesSpec:
    """A function over Arrow record batches or pandas data frames."""

    function: Any
    batch_format: str  # "arrow" or "pandas": what the function takes


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink; its writers run in the tasks."""

    sink: Any  # millstream.datastream.connectors.base.Sink


@dataclass(frozen=True, slots=True)
class CollectSpec:
    """Keeps results until the client pulls them."""


OperatorSpec = (
    SourceSpec
    | MapSpec
    | FlatMapSpec
    | FilterSpec
    | ProcessSpec
    | KeyedProcessSpec
    | ReduceSpec
    | CoMapSpec
    | CoFlatMapSpec
    | CoProcessSpec
    | BroadcastProcessSpec
    | MapBatchesSpec
    | SinkSpec
    | CollectSpec
)


@dataclass(frozen=True, slots=True)
class KeySelector:
    """How the key is taken from a record: by field names or positions (which also works on columns), or by a function.

    Exactly one of `fields` and `function` is set. One field gives its bare value as the key, several a tuple.
    """

    fields: tuple[str | int, ...] = ()
    function: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class ChainedOutput:
    """Where an operator's records go inside its chain: to another operator, or to an output of the task."""

    operator: int | None = None  # index into Chain.operators
    output: int | None = None  # index of the task's outputs
    tag: str | None = None  # a side output's id; None: the main output
    tag_type: TypeInformation = PICKLED  # of a side output's records
    edge: str = ""  # to another operator: what the edge is named, as in EdgeSpec


@dataclass(frozen=True, slots=True)
class ChainedOperator:
    """One operator of a chain. `output_type` is the type of what its main output emits."""

    operator_id: str
    name: str
    spec: OperatorSpec
    output_type: TypeInformation
    outputs: tuple[ChainedOutput, ...]
    uid: str = ""  # the user's, or empty

    @property
    def folder(self) -> str:
        """What its state files lie under in a snapshot: its uid, or its id when it has none."""
        return self.uid or self.operator_id

    def type_of(self, output: ChainedOutput) -> TypeInformation:
        """The type of what goes to one of its outputs."""
        return self.output_type if output.tag is None else output.tag_type


@dataclass(frozen=True, slots=True)
class Chain:
    """The operators of one vertex, in topological order: a tree whose head, index 0, takes the task's input."""

    operators: tuple[ChainedOperator, ...]


@dataclass(frozen=True, slots=True)
class ForwardPartitioner:
    """Subtask i to subtask i."""


@dataclass(frozen=True, slots=True)
class RebalancePartitioner:
    """Round robin over all consumers."""


@dataclass(frozen=True, slots=True)
class RescalePartitioner:
    """Round robin over the consumers of this producer's share."""


@dataclass(frozen=True, slots=True)
class ShufflePartitioner:
    """A random consumer."""


@dataclass(frozen=True, slots=True)
class BroadcastPartitioner:
    """Every consumer."""


@dataclass(frozen=True, slots=True)
class GlobalPartitioner:
    """The first consumer."""


@dataclass(frozen=True, slots=True)
class HashPartitioner:
    """The consumer that owns the key's group."""

    key_selector: KeySelector


@dataclass(frozen=True, slots=True)
class CustomPartitioner:
    """The consumer that the user's function names: `partitioner(key, number of consumers)`."""

    partitioner: Any
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


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """An edge as its two ends see it: how records are spread, their type, and how long they may wait for company."""

    partitioner: Partitioner
    type: TypeInformation
    max_parallelism: int  # of the consumer: the number of key groups
    buffer_timeout: float | None = None  # seconds; None: as configured; negative: only when full
    source: str = ""  # the id of the operator whose records these are
    name: str = "0"  # the same for the same two operators, however they are chained with others
