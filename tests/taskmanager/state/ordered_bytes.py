"""Keys and values as bytes, and bytes in order: the parts of a backend that serialises."""

from __future__ import annotations

import copyreg
import datetime
import decimal
import io
import pickle
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import repeat
from typing import Any

from millstream.core.records.batches import RowBatch
from millstream.core.records.conversion import field_types
from millstream.core.records.types import PICKLED, BasicType, TypeInformation
from millstream.core.row import Row
from millstream.taskmanager.worker.network.codecs import ElementCodec


def same(key: Any, kind: TypeInformation = PICKLED) -> Any:
    """The canonical form of a key: equal keys have the same, whatever their classes.

    Of the declared type if they fit.
    """
    if isinstance(kind, BasicType) and kind.python_type in (bool, float) and key is not None and key == key:
        declared = kind.python_type(key)
        if declared == key:
            return declared + 0.0 if kind.python_type is float else declared
    inner: Iterable[TypeInformation] = field_types(kind) or repeat(PICKLED)
    if isinstance(key, bool | int) or (hasattr(key, "item") and getattr(key, "shape", None) == ()):
        key = int(key) if isinstance(key, int) else key.item()
    if isinstance(key, decimal.Decimal) and key == key:
        key = float(key) if float(key) == key else key.normalize()
    if isinstance(key, float):
        return int(key) if key.is_integer() else key if key == key else float("nan")
    if isinstance(key, datetime.datetime) and key.tzinfo is not None:
        return key.astimezone(datetime.UTC)
    if isinstance(key, tuple):
        return tuple(map(same, key, inner))
    if isinstance(key, Row):
        return Row.of_names(key.get_fields_names(), list(map(same, key, inner)))
    if is_dataclass(key) and not isinstance(key, type):
        values = [getattr(key, field.name) for field in fields(key)]
        return type(key)(*map(same, values, inner))
    return key


def key_bytes(key: Any, kind: TypeInformation | None) -> bytes:
    """The same bytes for equal keys: a pickle without memo, because shared objects must not matter."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    pickler.fast = True
    pickler.dispatch_table = copyreg.dispatch_table
    pickler.dump(same(key, kind or PICKLED))
    return buffer.getvalue()


class ValueCodec:
    """Values of a declared type, one at a time."""

    def __init__(self, kind: TypeInformation) -> None:
        self._codec = ElementCodec(kind)

    def encode(self, value: Any) -> bytes:
        number, payload = self._codec.encode(RowBatch([value]))
        return bytes([number]) + payload

    def decode(self, data: bytes) -> Any:
        batch = self._codec.decode(data[0], data[1:])
        return batch.rows[0]


def framed(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def unframed(data: bytes) -> tuple[bytes, bytes]:
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end], data[end:]


class OrderedBytes:
    """Bytes by bytes, found by prefix."""

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        self._order: list[bytes] = []
        self.closed = False

    def get(self, key: bytes) -> bytes | None:
        assert not self.closed, "it was closed"
        return self._data.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        assert not self.closed, "it was closed"
        if key not in self._data:
            insort(self._order, key)
        self._data[key] = value

    def delete(self, key: bytes) -> None:
        if self._data.pop(key, None) is not None:
            del self._order[bisect_left(self._order, key)]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What follows the prefix, with its value, as of the start of the scan."""
        assert not self.closed, "it was closed"
        end = bisect_left(self._order, prefix + b"\xff" * 16)
        for key in self._order[bisect_left(self._order, prefix) : end]:
            if key.startswith(prefix):
                yield key[len(prefix) :], self._data[key]

    def snapshot(self) -> OrderedBytes:
        copied = OrderedBytes()
        copied._data, copied._order = self._data.copy(), self._order.copy()  # its own class
        return copied
