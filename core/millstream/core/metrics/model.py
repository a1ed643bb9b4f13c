"""Metrics as they are read at one moment: groups of named figures, each with its scope and variables, as in Flink.

A *scope* is the kind of thing that a figure is about: a task manager, a subtask, an operator. Its *variables* name it.
A group inside of a scope, such as one of a user's function, has a path. `add_group("shard", "7")` makes two steps of
the path, `shard.7`, one of the logical path, `shard`, and a variable `shard` with the value `7`: systems with labels
show it as one, so that figures of all shards have one name.

Between processes, groups travel as MessagePack inside of a message of the contract. There are tens of thousands of
figures in a large job: as protobuf's messages, they took longer to convert than all else that the dispatcher does.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct, field

from millstream.core.errors import MillstreamError

Number = int | float


class MetricKind(StrEnum):
    """What a figure is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


class Scope(StrEnum):
    """What a figure is about. The value is Flink's logical scope, which the names of exported metrics begin with."""

    JOB_MANAGER = "jobmanager"
    """Also what the dispatcher and the resource manager measure, which are a part of it in Flink."""
    JOB = "jobmanager.job"
    JOB_MANAGER_OPERATOR = "jobmanager.job.operator"
    """The coordinator of an operator, which for a source has the enumerator of its splits."""
    TASK_MANAGER = "taskmanager"
    TASK_MANAGER_JOB = "taskmanager.job"
    TASK = "taskmanager.job.task"
    OPERATOR = "taskmanager.job.task.operator"


class MeterReading(Struct, frozen=True, array_like=True, gc=False):
    """Events so far, and how many there are in a second."""

    count: int
    rate: float


class HistogramReading(Struct, frozen=True, array_like=True, gc=False):
    """How the last values are spread. `count` is of all that there ever were."""

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
    """All figures of one scope with the same variables and path. Holds no cycles, hence nothing to collect."""

    scope: Scope
    variables: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    logical: tuple[str, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, Number] = field(default_factory=dict)
    meters: dict[str, MeterReading] = field(default_factory=dict)
    histograms: dict[str, HistogramReading] = field(default_factory=dict)
    tops: dict[str, dict[str, float]] = field(default_factory=dict)
    """What comes most often, by its text: no figures, as there is no end to the texts. No reporter sees them."""

    def about(self, variables: dict[str, str]) -> MetricGroup:
        """The same figures with more variables, which nothing in the group can replace."""
        return msgspec.structs.replace(self, variables={**self.variables, **variables})


class MalformedMetricsError(MillstreamError):
    """Bytes that are no groups of metrics."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[MetricGroup])


def encode_groups(groups: list[MetricGroup]) -> bytes:
    """As they travel."""
    return _ENCODER.encode(groups)


def decode_groups(content: bytes) -> list[MetricGroup]:
    """The groups again; none for nothing. Raises MalformedMetricsError."""
    if not content:
        return []
    try:
        return _DECODER.decode(content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedMetricsError(f"malformed metrics: {error}") from error
