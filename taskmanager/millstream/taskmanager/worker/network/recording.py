"""Records the in-flight data of one input channel until the channel's barrier arrives.

Owned by the worker's loop. Buffers are kept as received. Batches passed by reference are encoded at once: the task
continues with their records, and functions may change them.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from millstream.core.records.batches import (
    Barrier,
    Batch,
    ColumnBatch,
    Element,
    EndOfInput,
    RowBatch,
    Signal,
    StreamSignal,
)
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.network.codecs import ElementCodec, PickledRows
from millstream.taskmanager.worker.network.frames import Data
from millstream.taskmanager.worker.network.signals import decode_signal, is_signal


class Buffer(NamedTuple):
    """An encoded batch, or with `more` its beginning."""

    codec: int
    payload: bytes
    compressed: bool = False
    more: bool = False


class Recording:
    """The recording of one channel for one checkpoint; complete with the checkpoint's barrier, or the end of the input.

    If a newer barrier arrives first, the awaited one never will: then the recording stays incomplete, and empty. If a
    batch cannot be encoded, `error` has the reason, and the checkpoint cannot be taken.
    """

    __slots__ = ("_codec", "_stopped", "buffers", "checkpoint_id", "error", "is_complete")

    def __init__(self, checkpoint_id: int, codec: ElementCodec) -> None:
        self.checkpoint_id = checkpoint_id
        self.buffers: list[Buffer] = []
        self.is_complete = False
        self.error: BaseException | None = None
        self._stopped = False
        self._codec = codec

    @property
    def is_in_vain(self) -> bool:
        """Whether a newer barrier came first: then the recording never becomes complete, not even with the end."""
        return self._stopped and not self.is_complete

    def add(self, item: Data | PickledRows | Element) -> None:
        """Adds what arrived, a buffer or an element, or the rest of a buffer."""
        if self._stopped:
            return
        match item:
            case Data():
                if is_signal(item.codec):
                    self._signal(decode_signal(item.codec, item.payload))
                else:
                    self.buffers.append(buffer_of(item))
            case PickledRows():
                self.buffers.append(Buffer(item.codec, item.rest))
            case RowBatch() | ColumnBatch():
                self._encode(item)
            case EndOfInput() | Barrier() | StreamSignal():
                self._signal(item)
            case _:
                assert_never(item)

    def _encode(self, batch: Batch) -> None:
        try:
            self.buffers.append(Buffer(*self._codec.encode(batch)))
        except TaskInterrupted:
            raise
        except BaseException as error:  # raised by user classes: the records are still valid without a copy
            self.error, self.is_complete, self._stopped = error, True, True

    def _signal(self, signal: Signal) -> None:
        match signal:
            case EndOfInput():
                self.is_complete = self._stopped = True
            case Barrier(number):
                self.is_complete = number == self.checkpoint_id
                self._stopped = number >= self.checkpoint_id
                if number > self.checkpoint_id:
                    self.buffers.clear()
            case StreamSignal():
                pass  # it describes the stream rather than the records, and is sent again
            case _:
                assert_never(signal)


def buffer_of(data: Data) -> Buffer:
    """Converts a received buffer, without what belongs to its channel."""
    return Buffer(data.codec, data.payload, data.compressed, data.more)
