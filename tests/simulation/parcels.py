"""Messages on the virtual network as they are, without being turned into bytes and back.

That conversion has tests of its own, and takes a fifth of a simulated schedule's time. Messages are frozen, so both
ends may have the same one. Some schedules convert all the same (`converted`): nothing may depend on the difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from millstream.core.wire.wire import Wire


class Parcel(bytes):
    """Stands for the bytes of a message."""

    message: Any


def _to_parcel(_wire: Any, value: Any) -> Parcel:
    parcel = Parcel()
    parcel.message = value
    return parcel


def _from_parcel(wire: Any, raw: bytes) -> Any:
    return raw.message if type(raw) is Parcel else _from_bytes(wire, raw)


_to_bytes, _from_bytes = Wire.to_bytes, Wire.from_bytes


@contextlib.contextmanager
def parcels(converted: bool) -> Iterator[None]:
    """For as long as a schedule runs, messages travel as parcels, unless they are to be `converted`."""
    if converted:
        yield
        return
    Wire.to_bytes, Wire.from_bytes = _to_parcel, _from_parcel  # type: ignore[method-assign]
    try:
        yield
    finally:
        Wire.to_bytes, Wire.from_bytes = _to_bytes, _from_bytes  # type: ignore[method-assign]
