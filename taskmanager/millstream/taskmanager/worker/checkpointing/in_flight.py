"""Records in flight between two tasks, as part of a checkpoint.

They belong to the operator that emitted them, one state for each of its edges and side of the exchange. After a
restore, the operator emits them again along that edge, through its task's router and before anything else; so they
reach their consumer under any parallelism, even if another parallelism chains the operators differently. For each
channel, what its consumer had received comes before what its producer had queued. The records of an original producer
stay together, in their order.

Each element of such a state is (producer subtask, consumer subtask, codec, payload), pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import Any

from msgspec import Struct

from millstream.core.snapshot.errors import SnapshotError, one_line
from millstream.core.snapshot.tables.columns import dumps
from millstream.core.snapshot.tables.redistribution import QUEUED, takes_over
from millstream.taskmanager.worker.network.codecs import decompress
from millstream.taskmanager.worker.network.recording import Buffer
from millstream.taskmanager.worker.network.signals import is_signal

_PREFIX = "in-flight"


class Side(StrEnum):
    """The side of the exchange where the records were, in their order."""

    RECEIVED = "received"
    QUEUED = QUEUED


class CapturedChannel(Struct, frozen=True):
    """The contents of one channel: encoded batches and parts of them; signals among them are left out."""

    producer: int
    consumer: int
    buffers: Sequence[Buffer]
    error: BaseException | None = None

    def elements(self) -> Iterator[bytes]:
        """The elements to store. Called on the writer's thread."""
        if self.error is not None:
            raise SnapshotError("records in flight", f"cannot be stored: {one_line(self.error)}") from self.error
        parts: list[bytes] = []
        for codec, payload, compressed, more in self.buffers:
            if is_signal(codec):
                continue
            parts.append(payload)
            if not more:
                whole = b"".join(parts)
                yield dumps((self.producer, self.consumer, codec, decompress(whole) if compressed else whole))
                parts = []


class CapturedInFlight(Struct, frozen=True):
    """A state of this kind, to be written."""

    name: str
    channels: tuple[CapturedChannel, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(len(buffer.payload) for channel in self.channels for buffer in channel.buffers)

    def elements(self) -> list[bytes]:
        """The elements of all its channels."""
        return [element for channel in self.channels for element in channel.elements()]


def state_name(edge: str, side: Side) -> str:
    """The name of the state, unique within the operator."""
    return f"{_PREFIX}-{edge}-{side}"


def share_of(
    states: Iterable[tuple[str, list[Any]]], subtask: int, parallelism: int
) -> dict[str, list[tuple[int, bytes]]]:
    """What a producer emits again: (codec, payload) by edge, from the names and elements of all such states."""
    shares: dict[str, list[tuple[tuple[int, int, int], int, bytes]]] = {}
    for name, elements in states:
        _, edge, side = name.removeprefix(_PREFIX).split("-")
        order = list(Side).index(Side(side))
        shares.setdefault(edge, []).extend(
            ((producer, consumer, order), codec, payload)
            for producer, consumer, codec, payload in elements
            if takes_over(producer, parallelism) == subtask
        )
    return {
        edge: [(codec, payload) for _, codec, payload in sorted(share, key=itemgetter(0))]
        for edge, share in sorted(shares.items())
    }
