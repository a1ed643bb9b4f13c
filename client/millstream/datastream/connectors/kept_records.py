"""The records of a cached stream in files, as one job writes them and later jobs of the program read them.

A file holds the batches of one subtask of the stream, pickled, each behind its length. It is named after its subtask
and attempt when that has come to the end of its input; of several attempts, the last one counts.
"""

from __future__ import annotations

import os
import pickle
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from millstream.core.overriding import override
from millstream.core.pickling import reading_state, to_bytes
from millstream.core.records.batches import Batch
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.base import (
    Boundedness,
    Sink,
    SinkWriter,
    Source,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.split_queue import OneSplitReader, QueueEnumerator
from millstream.datastream.functions import RuntimeContext

_LENGTH = 8  # bytes


class KeptRecordsSink(Sink):
    """Writes to a folder, which the first subtask makes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        """A file for each subtask."""
        return _Writer(Path(self.folder), f"{context.get_index_of_this_subtask()}-{context.get_attempt_number()}")


class _Writer(SinkWriter):
    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / name
        self._written = folder / f".{name}-{uuid.uuid4().hex}"
        self._file: IO[bytes] = self._written.open("xb")

    def write(self, batch: Batch) -> None:
        """Behind what is there."""
        data = to_bytes(batch)
        self._file.write(len(data).to_bytes(_LENGTH, "big"))
        self._file.write(data)

    def flush(self, end_of_input: bool) -> None:
        """At the end the file gets its name."""
        self._file.flush()
        if end_of_input:
            self._file.close()
            self._written.replace(self._path)

    def close(self) -> None:
        """What has not come to its end is removed."""
        self._file.close()
        self._written.unlink(missing_ok=True)


def kept_files(folder: str, subtasks: int) -> list[str] | None:
    """The files of all subtasks, in their order, if each has come to its end; else None."""
    last: dict[int, int] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        if not name.startswith("."):
            subtask, attempt = map(int, name.split("-"))
            last[subtask] = max(attempt, last.get(subtask, 0))
    if len(last) != subtasks:
        return None
    return [str(Path(folder, f"{subtask}-{last[subtask]}")) for subtask in range(subtasks)]


@dataclass(frozen=True)
class KeptFile:
    """A file and how far it is read: the place of a batch, and a number of its rows."""

    split_id: str
    place: int = 0
    rows: int = 0


class KeptRecordsSource(Source[KeptFile]):
    """Reads such files, with the timestamps that the records had."""

    def __init__(self, files: list[str], record_type: TypeInformation) -> None:
        self._files = files
        self._type = record_type

    @override
    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[KeptFile]) -> SplitEnumerator[KeptFile]:
        """A split for each file."""
        return QueueEnumerator(context, [KeptFile(file) for file in self._files])

    def restore_enumerator(self, context: SplitEnumeratorContext[KeptFile], state: Any) -> SplitEnumerator[KeptFile]:
        """The files not handed out."""
        return QueueEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> OneSplitReader[KeptFile]:
        """One file after the other."""
        return _Reader(context)

    @override
    def get_produced_type(self) -> TypeInformation:
        return self._type

    def keeps_records(self) -> bool:
        """Each is made as it is read."""
        return False


class _Reader(OneSplitReader[KeptFile]):
    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._split = KeptFile("")
        self._file: IO[bytes] | None = None
        self._batch: Batch | None = None  # whose rows are not all read
        self._next = 0  # the place of the batch behind it

    def open_split(self, split: KeptFile) -> None:
        """Opens the file at the next batch to read."""
        self._split, self._batch = split, None
        self._file = open(split.split_id, "rb")  # noqa: SIM115  # `close_split` closes it
        self._file.seek(split.place)

    def read(self, max_rows: int) -> Batch | None:
        """Returns at most `max_rows` rows of one batch."""
        if self._batch is None:
            self._batch = self._load()
            if self._batch is None:
                return None
        start, end = self._split.rows, min(self._split.rows + max_rows, len(self._batch))
        part = self._batch.slice(start, end)
        if end == len(self._batch):
            self._batch = None
            self._split = replace(self._split, place=self._next, rows=0)
        else:
            self._split = replace(self._split, rows=end)
        return part

    def _load(self) -> Batch | None:
        assert self._file is not None, "a split is opened before it is read"
        length = int.from_bytes(self._file.read(_LENGTH), "big")
        if not length:
            return None
        with reading_state():  # classes of the program are those of this job
            batch: Batch = pickle.loads(self._file.read(length))
        self._next = self._split.place + _LENGTH + length
        return batch

    def current_split(self) -> KeptFile:
        """The file, and how far it is read."""
        return self._split

    @override
    def close_split(self) -> None:
        if self._file is not None:
            self._file.close()
