"""Text from a TCP socket, for trying things out: what was read before a failure cannot be read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.types import STRING, TypeInformation
from millstream.datastream.connectors.base import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.fetching import FetchingReader
from millstream.datastream.connectors.line_socket import LineSocket, SocketOptions
from millstream.datastream.connectors.malformed import (
    DeadLetter,
    ErrorHandling,
    MalformedCount,
    MalformedRecords,
    OnError,
)
from millstream.datastream.connectors.split_queue import QueueEnumerator
from millstream.datastream.functions import OutputTag


@dataclass(frozen=True, slots=True)
class SocketSplit:
    """The one connection."""

    host: str
    port: int

    @property
    def split_id(self) -> str:
        """The address."""
        return f"{self.host}:{self.port}"


class SocketTextSource(Source[SocketSplit, str]):
    r"""The records of one connection, cut at the delimiter; one subtask reads, the others end at once.

    The source ends with the stream. A connection that is refused or breaks fails it. Both are tried again up to
    `max_retry` times, half a second apart; -1 is without a limit. With the delimiter `\n`, a `\r` before it is removed.
    `on_error` decides what happens to records that are not valid UTF-8.
    """

    def __init__(
        self,
        host: str,
        port: int,
        delimiter: str = "\n",
        max_retry: int = 0,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> None:
        if not 0 < port < 65536:
            raise InvalidProgramError(f"a socket source's port must be from 1 to 65535, got {port}")
        if not delimiter:
            raise InvalidProgramError("a socket source's delimiter must not be empty")
        if max_retry < -1:
            raise InvalidProgramError(f"a socket source's max_retry must be -1 (no limit) or more, got {max_retry}")
        self._options = SocketOptions(host, port, delimiter, max_retry)
        self._handling = ErrorHandling.of(on_error)

    def get_boundedness(self) -> Boundedness:
        """Returns `CONTINUOUS_UNBOUNDED`: the end of the stream is not known in advance."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[SocketSplit]) -> SplitEnumerator[SocketSplit]:
        """One split."""
        return QueueEnumerator(context, [SocketSplit(self._options.host, self._options.port)])

    def restore_enumerator(
        self, context: SplitEnumeratorContext[SocketSplit], state: Any
    ) -> SplitEnumerator[SocketSplit]:
        """The split when no reader has it."""
        return QueueEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[SocketSplit]:
        """Connects when it gets the split."""
        return _SocketReader(context, self._options, self._handling)

    def side_outputs(self) -> tuple[OutputTag, ...]:
        """Dead letters, with `on_error='dead-letter'`."""
        return self._handling.side_outputs

    @override
    def get_produced_type(self) -> TypeInformation[str]:
        return STRING


class _SocketReader(FetchingReader[Any]):
    """Its state is the split, and how many records were none."""

    def __init__(self, context: SourceReaderContext, options: SocketOptions, handling: ErrorHandling) -> None:
        super().__init__(context, LineSocket(options), f"socket {options.host}:{options.port}")
        self._malformed = MalformedRecords(handling, context, lambda letter: f"socket source {letter.source}")

    def on_batch(self, batch: Batch) -> Batch:
        """Takes out what is no record."""
        records = batch.records()
        self._malformed.handle([record for record in records if isinstance(record, DeadLetter)])
        return RowBatch([record for record in records if isinstance(record, str)])

    def add_splits(self, splits: list[Any]) -> None:
        """A count goes to the count."""
        self._malformed.restore([split for split in splits if isinstance(split, MalformedCount)])
        connections = [split for split in splits if not isinstance(split, MalformedCount)]
        if connections:
            super().add_splits(connections)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """The split, and the count."""
        return [*super().snapshot_state(checkpoint_id), *self._malformed.state()]

    @override
    def close(self) -> None:
        super().close()
        self._malformed.close()
