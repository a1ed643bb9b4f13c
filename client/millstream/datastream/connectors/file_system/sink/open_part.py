"""A part file that is being written, under its hidden name."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO

from millstream.core.records.batches import Batch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat
from millstream.datastream.connectors.file_system.transactions import PartState, PendingFile, naming


class OpenPart:
    """New, or begun with a copy of what a checkpoint holds of a part: a dead attempt may still write to the original.

    `held` means that a checkpoint may hold the beginning of this file, which then must not be removed.
    """

    def __init__(
        self, hidden: str, visible: str, bucket: str, part_format: PartFormat, now: float, begun: PartState | None
    ) -> None:
        self.hidden = hidden
        self.visible = visible
        self.bucket = bucket
        self.held = False
        self._durable = -1  # bytes
        self.opened = self.last_write = now
        with naming(hidden):
            self._stream: BinaryIO = open(hidden, "xb")  # noqa: SIM115  # closed by finish or drop
        try:
            if begun is not None:
                _copy(begun, self._stream)
            self._writer = part_format.open(self._stream, None if begun is None else begun.format_state)
        except BaseException:
            self._remove()
            raise

    def write(self, batch: Batch, now: float) -> None:
        """Adds a batch."""
        with naming(self.hidden):
            self._writer.write(batch)
        self.last_write = now

    @property
    def size(self) -> int:
        """About how large the file is."""
        return self._stream.tell() + self._writer.held_bytes()

    def hold(self) -> PartState:
        """Makes what is written durable, for a checkpoint that holds it; most parts have nothing new."""
        length = self._stream.tell()
        if length != self._durable:
            self._sync()
            self._durable = length
        self.held = True
        return PartState(self.hidden, self.visible, self.bucket, length, self._writer.state())

    def finish(self) -> PendingFile:
        """Completes the file, durably."""
        with naming(self.hidden):
            self._writer.finish()
        self._sync()
        with naming(self.hidden):
            self._stream.close()
        return PendingFile(self.hidden, self.visible, self.held)

    def _sync(self) -> None:
        with naming(self.hidden):
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def drop(self) -> None:
        """Stops writing; removes the file unless a checkpoint may hold its beginning."""
        for release in (self._writer.abandon, self._stream.close):
            with contextlib.suppress(OSError, ValueError):  # what is thrown away need not fit on a full disk
                release()
        if not self.held:
            self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            os.unlink(self.hidden)


def _copy(begun: PartState, target: BinaryIO) -> None:
    with naming(begun.hidden), open(begun.hidden, "rb") as source:
        left = begun.length
        while left and (block := source.read(min(left, 1 << 20))):
            target.write(block)
            left -= len(block)
    if left:
        raise ConnectorError(
            f"file sink: {begun.hidden} is damaged: {begun.length} bytes of it belong to the restored checkpoint, and "
            f"it has {begun.length - left}"
        )
