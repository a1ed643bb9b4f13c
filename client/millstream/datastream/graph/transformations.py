"""What a program is made of while it is being written: operators, and the virtual nodes between them.

A program's calls build a graph of transformations that point at their inputs. Operators become nodes of the stream
graph; partitionings, unions and side outputs only describe an edge between operators. Operators are numbered in
the order of their creation, which is a topological order because inputs exist before their consumers.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from msgspec import Struct

from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.plan.plan import OperatorSpec, Partitioner
from millstream.core.records.types import TypeInformation
from millstream.datastream.functions import OutputTag
from millstream.datastream.slot_sharing_group import SlotSharingGroup


class ChainingStrategy(Enum):
    """Whether an operator may share a task with its neighbours."""

    ALWAYS = "always"
    HEAD = "head"  # with what follows it, not with what comes before
    NEVER = "never"


class OperatorTransformation(Struct, eq=False):
    """An operator, and what the user set for it. None: as the environment or the inputs have it."""

    number: int
    name: str
    input: Transformation | None
    spec: OperatorSpec
    output_type: TypeInformation
    uid: str | None = None
    parallelism: int | None = None
    non_parallel: bool = False
    max_parallelism: int | None = None
    slot_sharing_group: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    buffer_timeout: float | None = None  # seconds; negative: only when full
    more_inputs: tuple[Transformation, ...] = ()
    uid_hash: str | None = None  # the operator's id, in place of one that follows from its uid or inputs
    description: str | None = None
    group: SlotSharingGroup | None = None  # with the resources of its slots, if they are set

    @property
    def full_name(self) -> str:
        """The name as people see it, with Flink's prefixes for sources and sinks."""
        return self.spec.prefix + self.name

    @property
    def full_description(self) -> str:
        """The description in plans: the name, unless another one is set."""
        return self.full_name if self.description is None else self.spec.prefix + self.description


class PartitionTransformation(Struct, eq=False):
    """How the records of the input are spread over their consumer, and when it receives them."""

    input: Transformation
    partitioner: Partitioner
    exchange: Exchange = Exchange.PIPELINED


class UnionTransformation(Struct, eq=False):
    """Several streams as one."""

    inputs: tuple[Transformation, ...]


class SideOutputTransformation(Struct, eq=False):
    """A side output of an operator."""

    input: OperatorTransformation
    tag: OutputTag


class CacheTransformation(Struct, eq=False):
    """A stream whose records a job keeps for later ones, which read them in its place.

    Until they are kept, its consumers read its input, and so does the writer.
    """

    input: OperatorTransformation | SideOutputTransformation
    reader: OperatorTransformation
    writer: OperatorTransformation
    is_kept: bool = False

    @property
    def producer(self) -> OperatorTransformation:
        """The operator whose records these are."""
        return self.input.input if isinstance(self.input, SideOutputTransformation) else self.input


Transformation = (
    OperatorTransformation
    | PartitionTransformation
    | UnionTransformation
    | SideOutputTransformation
    | CacheTransformation
)


class PhysicalInput(Struct, frozen=True):
    """An operator that feeds another, once the virtual nodes between the two are resolved."""

    operator: OperatorTransformation
    partitioner: Partitioner | None
    tag: OutputTag | None
    input: int = 0  # which of the consumer's inputs it feeds, from 0
    exchange: Exchange = Exchange.PIPELINED


_Candidate = tuple[Transformation, PartitionTransformation | None, OutputTag | None]


def inputs_of(operator: OperatorTransformation) -> list[PhysicalInput]:
    """The operators that feed this one, input by input."""
    inputs = (operator.input, *operator.more_inputs)
    return [found for number, one in enumerate(inputs) for found in physical_inputs(one, number)]


def physical_inputs(transformation: Transformation | None, input_: int = 0) -> list[PhysicalInput]:
    """The operators behind a transformation, in the order of its unions.

    Of several partitionings in a row the last one holds, as in Flink.
    """
    found: list[PhysicalInput] = []
    pending: list[_Candidate] = [] if transformation is None else [(transformation, None, None)]
    while pending:
        current, last, tag = pending.pop()
        match current:
            case OperatorTransformation():
                found.append(
                    PhysicalInput(current, None, tag, input_)
                    if last is None
                    else PhysicalInput(current, last.partitioner, tag, input_, last.exchange)
                )
            case PartitionTransformation():
                pending.append((current.input, last or current, tag))
            case SideOutputTransformation():
                pending.append((current.input, last, current.tag))
            case UnionTransformation():
                pending.extend((member, last, tag) for member in reversed(current.inputs))
            case CacheTransformation():
                pending.append((current.reader if current.is_kept else current.input, last, tag))
            case _:
                assert_never(current)
    return found


def reachable(ends: list[OperatorTransformation]) -> list[OperatorTransformation]:
    """Every operator that the given ones depend on and themselves, each once, inputs before consumers."""
    seen: dict[int, OperatorTransformation] = {}
    pending = list(ends)
    while pending:
        operator = pending.pop()
        if operator.number not in seen:
            seen[operator.number] = operator
            pending.extend(found.operator for found in inputs_of(operator))
    return [seen[number] for number in sorted(seen)]
