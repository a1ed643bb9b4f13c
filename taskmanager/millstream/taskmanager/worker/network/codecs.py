"""Encodes batches and signals: a record arrives exactly as it would have been passed inside of a slot.

How rows are encoded depends on their declared type, and on their values where the type would not restore them:
MessagePack (msgspec) for dataclasses, rows and times, if the whole buffer is exactly of its type; otherwise they are
pickled. Records of text, numbers and bytes, declared or detected, are always pickled, without the memo that pickle
keeps of objects: that is as fast, and does not inspect them. Columns are Arrow IPC; timestamps and kinds of change are
columns behind those of the records, and the codec's number says which of them are present: names do not matter. The
number is sent with each buffer, so a channel may mix codecs. Signals have tags instead: see `signals`.

A payload of pickled rows consists of one or more pickles, each of a batch. A buffer of small records holds tens of
thousands, whose objects exceed every processor cache: they are written as they arrive and read when they are processed,
some thousand at a time. For pairs of numbers that saves a twentieth of the total cost of a slot worker.
"""

from __future__ import annotations

import io
import pickle
from array import array
from collections.abc import Coroutine
from enum import IntEnum
from typing import Any

import msgspec

from millstream.core.errors import MillstreamError
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import TIMESTAMP, Batch, ColumnBatch, Element, RowBatch, joined
from millstream.core.records.batches.kinds import own_kinds
from millstream.core.records.batches.rows import rows_of_kinds
from millstream.core.records.types import RowType, TypeInformation, nullable
from millstream.core.row import Row, names_of, values_of
from millstream.taskmanager.worker.network.exact_types import Check, exact_check, is_plain
from millstream.taskmanager.worker.network.signals import decode_signal, encode_signal, is_signal


class Codec(IntEnum):
    """How the payload of a batch is encoded. Numbers never change: snapshots contain them."""

    MESSAGE_PACK = 1
    PICKLE = 2
    NAMED_COLUMNS = 3  # only in earlier snapshots: timestamps are in a last column of the name `__timestamp__`
    PLAIN = 6  # a pickle of immutable records
    CHANGES = 7  # MessagePack, with kinds of change
    COLUMNS = 8
    TIMED_COLUMNS = 9
    CHANGED_COLUMNS = 10
    TIMED_CHANGED_COLUMNS = 11

    @property
    def in_columns(self) -> bool:
        """Whether the batch is one of columns."""
        return self is Codec.NAMED_COLUMNS or self >= Codec.COLUMNS


PICKLED = frozenset({Codec.PICKLE, Codec.PLAIN})
COLUMNS = frozenset(codec for codec in Codec if codec.in_columns)
_ROWS = 2048  # rows of one pickle


class PickledRows:
    """The batches of a payload of pickled rows, read one after another; not shared between threads."""

    __slots__ = ("_file", "_size", "codec")

    def __init__(self, codec: int, payload: bytes) -> None:
        self.codec = codec
        self._file = io.BytesIO(payload)
        self._size = len(payload)

    def next(self) -> RowBatch:
        """The next batch. There is one until `is_over`, and at least one in any payload."""
        timestamps, rows, *kinds = pickle.load(self._file)
        return RowBatch(rows, _times(timestamps), self.codec == Codec.PLAIN, *kinds)

    @property
    def is_over(self) -> bool:
        """Whether every batch was read."""
        return self._file.tell() == self._size

    @property
    def rest(self) -> bytes:
        """A payload with the remaining batches."""
        return self._file.getvalue()[self._file.tell() :]


class UnsendableRecordError(MillstreamError, TypeError):
    """A record that cannot leave its process, because it cannot be pickled."""


class ElementCodec:
    """Encodes and decodes the elements of one edge. One instance per end; not shared between threads."""

    def __init__(self, record_type: TypeInformation) -> None:
        self._is_row = isinstance(record_type, RowType)
        self._row_names = record_type.row_names if isinstance(record_type, RowType) else None
        self._plain = is_plain(record_type)
        wire = None if self._plain else _wire_type(record_type)
        self._exact: Check | None = None if wire is None else exact_check(wire)
        if self._exact is not None:
            try:
                self._decoder = msgspec.msgpack.Decoder(tuple[bytes | None, list[wire]])  # type: ignore[valid-type]  # built at run time
                self._changes_decoder = msgspec.msgpack.Decoder(tuple[bytes | None, list[wire], bytes])  # type: ignore[valid-type]  # as above
                self._encoder = msgspec.msgpack.Encoder()
            except TypeError:
                self._exact = None  # msgspec cannot distinguish the type's members: such records are pickled

    def pickles(self, batch: RowBatch) -> bool:
        """Whether the batch's rows are pickled regardless of their values: then payloads may be concatenated."""
        return self._exact is None or batch.plain

    def encode(self, element: Element) -> tuple[int, bytes]:
        """Returns the codec that was used, or the signal's tag, and the payload."""
        if isinstance(element, RowBatch):
            return self._encode_rows(element)
        if isinstance(element, ColumnBatch):
            return _encode_columns(element)
        return encode_signal(element)

    def _encode_rows(self, batch: RowBatch) -> tuple[Codec, bytes]:
        if self._plain or batch.plain:
            try:
                return Codec.PLAIN if batch.plain else Codec.PICKLE, _pickle_plain(batch)
            except Exception:
                return Codec.PICKLE, _pickle(batch)  # such as a list that contains itself
        rows = self._exact_rows(batch.rows)
        if rows is not None:
            kinds = own_kinds(batch.rows) if self._is_row else batch.kinds
            try:
                if kinds is None:
                    return Codec.MESSAGE_PACK, self._encoder.encode((_raw_times(batch), rows))
                return Codec.CHANGES, self._encoder.encode((_raw_times(batch), rows, kinds))
            except (TypeError, OverflowError, ValueError, RecursionError, msgspec.MsgspecError):
                pass  # a value that MessagePack cannot represent, such as an integer over 64 bits
        return Codec.PICKLE, _pickle(batch)

    def _exact_rows(self, rows: list[Any]) -> list[Any] | None:
        """The rows as passed to MessagePack, if all of them are decoded exactly."""
        if self._exact is None:
            return None
        if self._is_row:
            names = self._row_names
            if not all(type(row) is Row and names_of(row) == names for row in rows):
                return None
            rows = list(map(values_of, rows))
        return rows if self._exact(rows) else None

    def decode(self, codec: int, payload: bytes) -> Element:
        """Decodes an element."""
        if is_signal(codec):
            return decode_signal(codec, payload)
        match codec:
            case Codec.MESSAGE_PACK:
                timestamps, rows = self._decoder.decode(payload)
                return RowBatch(self._rows_of(rows), _times(timestamps))
            case Codec.CHANGES:
                timestamps, rows, kinds = self._changes_decoder.decode(payload)
                return rows_of_kinds(self._rows_of(rows), _times(timestamps), kinds)
            case Codec.PICKLE | Codec.PLAIN:
                pickled = PickledRows(codec, payload)
                batches: list[Batch] = [pickled.next()]
                while not pickled.is_over:
                    batches.append(pickled.next())
                return joined(batches)
            case _ if codec in COLUMNS:
                return _decode_columns(Codec(codec), payload)
        raise ValueError(f"unknown codec {codec}")

    def _rows_of(self, decoded: list[Any]) -> list[Any]:
        if not self._is_row:
            return decoded
        names = self._row_names
        return [Row.of_names(names, values) for values in decoded]


def _wire_type(record_type: TypeInformation) -> Any | None:
    if isinstance(record_type, RowType):
        inner = [nullable(f.wire_type()) for f in record_type.fields]
        return None if any(t is None for t in inner) else tuple[tuple(inner)]  # type: ignore[misc]  # built at run time
    return record_type.wire_type()


def _pickle_plain(batch: RowBatch) -> bytes:
    """Pickles without a memo, for records without classes: 29 ns for a pair of ints, instead of 56 with `dumps`."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    pickler.fast = True
    for start in range(0, max(len(batch), 1), _ROWS):
        part = batch if len(batch) <= _ROWS else batch.slice(start, start + _ROWS)
        pickler.dump(_raw(part))
    return file.getvalue()


def _raw(batch: RowBatch) -> tuple[Any, ...]:
    """What is pickled: timestamps, records and, if there are any, the kinds beside them."""
    raw = (_raw_times(batch), batch.rows)
    return raw if batch.kinds is None else (*raw, batch.kinds)


def _raw_times(batch: RowBatch) -> bytes | None:
    return None if batch.timestamps is None else batch.timestamps.tobytes()


def _times(raw: bytes | None) -> array[int] | None:
    return None if raw is None else array(TIMESTAMP, raw)


def _pickle(batch: RowBatch) -> bytes:
    value = _raw(batch)
    try:
        return pickle.dumps(value, 5)
    except Exception:  # whatever a user's __reduce__ raises
        pass
    try:
        # Classes of the user's own script exist only by value in the workers: plain pickle cannot name them.
        return to_bytes(value)
    except Exception as error:
        record = _first_unsendable(batch.rows)
        reason = f"because it cannot be pickled: {error}"
        if isinstance(record, Coroutine):
            record.close()
            reason = "because it is a coroutine: the result of an async function, which only AsyncDataStream awaits"
        raise UnsendableRecordError(f"{record!r:.500} cannot be sent to another slot, {reason}") from error


def _first_unsendable(rows: list[Any]) -> Any:
    for row in rows:
        try:
            to_bytes(row)
        except Exception:  # as above
            return row
    return rows


def _encode_columns(batch: ColumnBatch) -> tuple[Codec, bytes]:
    import pyarrow as pa

    data, codec = batch.data, int(Codec.COLUMNS)
    if batch.timestamps is not None:
        data, codec = data.append_column(_BESIDE, batch.timestamps), codec | _TIMED
    if batch.kinds is not None:
        data, codec = data.append_column(_BESIDE, batch.kinds), codec | _CHANGED
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_batch(data)
    return Codec(codec), sink.getvalue().to_pybytes()


def _decode_columns(codec: Codec, payload: bytes) -> ColumnBatch:
    import pyarrow as pa

    with pa.ipc.open_stream(payload) as reader:
        data = reader.read_next_batch()
    if codec is Codec.NAMED_COLUMNS:
        codec = Codec.TIMED_COLUMNS if data.schema.names[-1:] == [_NAMED] else Codec.COLUMNS
    end = data.num_columns
    kinds = timestamps = None
    if codec & _CHANGED:
        end -= 1
        kinds = data.column(end)
    if codec & _TIMED:
        end -= 1
        timestamps = data.column(end)
    return ColumnBatch(data if end == data.num_columns else data.select(list(range(end))), timestamps, kinds)


_TIMED = Codec.TIMED_COLUMNS ^ Codec.COLUMNS
_CHANGED = Codec.CHANGED_COLUMNS ^ Codec.COLUMNS
_BESIDE = ""  # the name of columns beside those of the records, which does not matter
_NAMED = "__timestamp__"


def compress(payload: bytes) -> bytes:
    """Compresses with lz4, if it is configured."""
    return _lz4().compress(payload)  # type: ignore[no-any-return]  # untyped library


def decompress(payload: bytes) -> bytes:
    """Decompresses a payload."""
    return _lz4().decompress(payload)  # type: ignore[no-any-return]  # untyped library


def _lz4() -> Any:
    try:
        import lz4.block
    except ImportError:
        raise MillstreamError(
            "taskmanager.network.compression.codec is LZ4, but lz4 is missing: pip install 'millstream[lz4]'"
        ) from None
    return lz4.block
