"""Readings of metrics: groups of named figures, each with its scope and variables, as in Flink.

A *scope* is the kind of entity that a figure describes, such as a task manager or an operator. *Variables* identify it.
A group inside of a scope, such as one of a user's function, has a path. `add_group("shard", "7")` makes two steps of
the path, `shard.7`, one of the logical path, `shard`, and a variable `shard` with the value `7`: systems with labels
show it as one, so that figures of all shards have one name.

Between processes, groups are sent as MessagePack inside a message of the contract. There are tens of thousands of
figures in a large job: as protobuf messages, their conversion took longer than everything else in the dispatcher.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct, field

from millstream.core.errors import MillstreamError

Number = int | float


class MetricKind(StrEnum):
    """The kind of a figure."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


class Scope(StrEnum):
    """The scope of a figure. The value is Flink's logical scope, the prefix of the names of exported metrics."""

    JOB_MANAGER = "jobmanager"
    """Also that of the dispatcher and the resource manager, which are parts of it in Flink."""
    JOB = "jobmanager.job"
    JOB_MANAGER_OPERATOR = "jobmanager.job.operator"
    """The coordinator of an operator, which for a source runs its split enumerator."""
    TASK_MANAGER = "taskmanager"
    TASK_MANAGER_JOB = "taskmanager.job"
    TASK = "taskmanager.job.task"
    OPERATOR = "taskmanager.job.task.operator"


class MeterReading(Struct, frozen=True, array_like=True, gc=False):
    """The number of events so far, and their rate per second."""

    count: int
    rate: float


class HistogramReading(Struct, frozen=True, array_like=True, gc=False):
    """The distribution of the last values. `count` is the number of all values so far."""

    count: int = 0
    min: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    stddev: float = 0.0
    p50: float = 0.0
    p75: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p98: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


class MetricGroup(Struct, frozen=True, array_like=True, gc=False):
    """All figures of one scope with the same variables and path. Contains no cycles, so it is not tracked."""

    scope: Scope
    variables: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    logical: tuple[str, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, Number] = field(default_factory=dict)
    meters: dict[str, MeterReading] = field(default_factory=dict)
    histograms: dict[str, HistogramReading] = field(default_factory=dict)
    tops: dict[str, dict[str, float]] = field(default_factory=dict)
    """The most frequent values, by their text. They are not figures and not reported, since texts are unbounded."""

    def about(self, variables: dict[str, str]) -> MetricGroup:
        """Returns the same figures with more variables, which take precedence over those of the group."""
        return msgspec.structs.replace(self, variables={**self.variables, **variables})


class MalformedMetricsError(MillstreamError):
    """The bytes are not encoded groups of metrics."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[MetricGroup])


def encode_groups(groups: list[MetricGroup]) -> bytes:
    """Encodes groups for a message."""
    return _ENCODER.encode(groups)


def decode_groups(content: bytes) -> list[MetricGroup]:
    """Decodes groups; none from empty bytes. Raises MalformedMetricsError."""
    if not content:
        return []
    try:
        return _DECODER.decode(content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedMetricsError(f"malformed metrics: {error}") from error
