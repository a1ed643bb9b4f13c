"""Batches and signals as bytes.

Rows of a declared type are MessagePack (msgspec); all others, and rows that turn out not to fit MessagePack, are
pickled; columns are Arrow IPC. The codec's number travels with each buffer, so a channel may mix them.
"""

from __future__ import annotations

import pickle
from enum import IntEnum
from typing import Any

import msgspec

from millstream.core.batches import END_OF_INPUT, Barrier, Batch, ColumnBatch, Element, EndOfInput, RowBatch
from millstream.core.errors import MillstreamError
from millstream.core.pickling import to_bytes
from millstream.core.row import Row
from millstream.core.types import DataclassType, RowType, TypeInformation
from millstream.taskmanager.network.exact_types import fields_restore_exactly, restores_exactly


class Codec(IntEnum):
    """How a payload is encoded."""

    MESSAGE_PACK = 1
    PICKLE = 2
    ARROW = 3
    SIGNAL = 4  # the end of the input, behind which nothing comes
    BARRIER = 5


class RecordTypeError(MillstreamError):
    """Records do not have the type that was declared for them."""


class ElementCodec:
    """Encodes and decodes what flows over one edge. One instance an end; not shared between threads."""

    def __init__(self, record_type: TypeInformation) -> None:
        self._type = record_type
        self._exact: type | None = record_type.cls if isinstance(record_type, DataclassType) else None
        self._row_names = record_type.names if isinstance(record_type, RowType) else None
        self._nested: set[type] = set()
        wire = self._wire_type(record_type)
        self._encoder: msgspec.msgpack.Encoder | None = None
        if wire is not None and self._fits(wire):
            try:
                self._decoder = msgspec.msgpack.Decoder(tuple[list[int] | None, list[wire]])  # type: ignore[valid-type]  # built at run time
                self._encoder = msgspec.msgpack.Encoder()
            except TypeError:
                pass  # msgspec cannot tell the type's members apart: such records are pickled

    def _fits(self, wire: Any) -> bool:
        if self._exact is not None:
            return fields_restore_exactly(self._exact, self._nested)
        return restores_exactly(wire, self._nested)

    @staticmethod
    def _wire_type(record_type: TypeInformation) -> Any | None:
        if isinstance(record_type, RowType):
            inner = [f.wire_type() for f in record_type.fields]
            return None if any(t is None for t in inner) else tuple[tuple(inner)]  # type: ignore[misc]  # built at run time
        return record_type.wire_type()

    def encode(self, element: Element) -> tuple[Codec, bytes]:
        """The codec that was used, and the payload."""
        if isinstance(element, RowBatch):
            return self._encode_rows(element)
        if isinstance(element, ColumnBatch):
            return Codec.ARROW, _encode_columns(element)
        if isinstance(element, Barrier):
            return Codec.BARRIER, msgspec.msgpack.encode(element)
        return Codec.SIGNAL, msgspec.msgpack.encode(type(element).__name__)

    def _encode_rows(self, batch: RowBatch) -> tuple[Codec, bytes]:
        rows: list[Any] = batch.rows
        encoder = self._encoder
        if encoder is not None:
            if isinstance(self._type, RowType):
                if all(type(r) is Row and (r.names is None or r.names == self._row_names) for r in rows):
                    rows = [r.values for r in rows]
                else:
                    encoder = None  # other names than the declared ones would be lost
            elif self._exact is not None and set(map(type, rows)) - {self._exact}:
                encoder = None  # a subclass would come out as its base
            if any(cls.__subclasses__() for cls in self._nested):
                encoder = None  # as above, for the dataclasses inside of the records
        if encoder is not None:
            try:
                return Codec.MESSAGE_PACK, encoder.encode((batch.timestamps, rows))
            except (TypeError, OverflowError, ValueError, msgspec.MsgspecError):
                pass  # a value that MessagePack has no form for, such as an integer over 64 bits
        return Codec.PICKLE, _pickle((batch.timestamps, batch.rows))

    def decode(self, codec: int, payload: bytes) -> Element:
        """The element again. Raises RecordTypeError when declared rows are something else."""
        match codec:
            case Codec.MESSAGE_PACK:
                try:
                    timestamps, rows = self._decoder.decode(payload)
                except msgspec.ValidationError as error:
                    raise RecordTypeError(
                        f"records do not have the declared type {self._type.describe()}: {error}"
                    ) from None
                if isinstance(self._type, RowType):
                    names = self._row_names
                    rows = [Row.of_names(names, values) for values in rows]
                return RowBatch(rows, timestamps)
            case Codec.PICKLE:
                timestamps, rows = pickle.loads(payload)
                return RowBatch(rows, timestamps)
            case Codec.ARROW:
                return _decode_columns(payload)
            case Codec.SIGNAL:
                if msgspec.msgpack.decode(payload) == EndOfInput.__name__:
                    return END_OF_INPUT
            case Codec.BARRIER:
                return msgspec.msgpack.decode(payload, type=Barrier)
        raise ValueError(f"unknown codec {codec}")


def _pickle(value: Any) -> bytes:
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        # Classes of the user's own script exist only by value in the workers: plain pickle cannot name them.
        return to_bytes(value)


def _encode_columns(batch: ColumnBatch) -> bytes:
    import pyarrow as pa

    data = batch.data
    if batch.timestamps is not None:
        data = data.append_column(_TIMESTAMPS, pa.array(batch.timestamps, pa.int64()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_batch(data)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # untyped library


def _decode_columns(payload: bytes) -> Batch:
    import pyarrow as pa

    with pa.ipc.open_stream(payload) as reader:
        data = reader.read_next_batch()
    if data.schema.names and data.schema.names[-1] == _TIMESTAMPS:
        last = data.num_columns - 1
        return ColumnBatch(data.select(list(range(last))), data.column(last))
    return ColumnBatch(data)


_TIMESTAMPS = "__timestamp__"


def compress(payload: bytes) -> bytes:
    """lz4, when the codec is configured."""
    return _lz4().compress(payload)  # type: ignore[no-any-return]  # untyped library


def decompress(payload: bytes) -> bytes:
    """The payload that was compressed."""
    return _lz4().decompress(payload)  # type: ignore[no-any-return]  # untyped library


def _lz4() -> Any:
    try:
        import lz4.block
    except ImportError:
        raise MillstreamError(
            "taskmanager.network.compression.codec is LZ4, but lz4 is missing: pip install 'millstream[lz4]'"
        ) from None
    return lz4.block
