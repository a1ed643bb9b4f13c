"""Messages on the virtual network as they are, without being turned into bytes and back.

That conversion has tests of its own, and takes a fifth of a simulated schedule's time. Messages are frozen, so both
ends may have the same one. The same goes for the operators of a snapshot, which are JSON within messages. Some
schedules convert all the same (`converted`): nothing may depend on the difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import patch

from millstream.core.snapshot import OperatorSnapshot
from millstream.core.snapshot.metadata import operator_json
from millstream.core.wire.wire import Wire
from millstream.jobmanager import checkpoint_messages
from millstream.jobmanager.restoring import restore_assignment


class Parcel(bytes):
    """Stands for the bytes of a message."""

    message: Any


def _to_parcel(_wire: Any, value: Any) -> Parcel:
    parcel = Parcel()
    parcel.message = value
    return parcel


def _from_parcel(wire: Any, raw: bytes) -> Any:
    return raw.message if type(raw) is Parcel else _from_bytes(wire, raw)


def _operators_to_parcel(operators: Iterable[OperatorSnapshot]) -> Parcel:
    parcel = Parcel(b"operators")  # that there are none is a matter of its own
    parcel.message = tuple(operators)
    return parcel


def _operators_from_parcel(data: Parcel, _where: str) -> Any:
    return data.message


_to_bytes, _from_bytes = Wire.to_bytes, Wire.from_bytes


@contextlib.contextmanager
def parcels(converted: bool) -> Iterator[None]:
    """For as long as a schedule runs, messages travel as parcels, unless they are to be `converted`."""
    if converted:
        yield
        return
    Wire.to_bytes, Wire.from_bytes = _to_parcel, _from_parcel  # type: ignore[method-assign]
    try:
        with (
            patch.object(operator_json, "operators_to_json", _operators_to_parcel),
            patch.object(operator_json, "operators_from_json", _operators_from_parcel),
            patch.object(checkpoint_messages, "operators_from_json", _operators_from_parcel),
            patch.object(restore_assignment, "operators_to_json", _operators_to_parcel),
        ):
            yield
    finally:
        Wire.to_bytes, Wire.from_bytes = _to_bytes, _from_bytes  # type: ignore[method-assign]
