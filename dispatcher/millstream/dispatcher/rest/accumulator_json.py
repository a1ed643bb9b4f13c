"""Accumulators in the JSON shapes of Flink's REST API: those of the subtasks of a job or vertex merged. Pure.

No code of the user's runs here. What Millstream's own accumulators hold is read and merged. An accumulator of a class
of the user's, and a value that is not plain data, is only returned as it was serialized.
"""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from millstream.core.jobs.details import Accumulator, JobDetails, VertexStatus
from millstream.datastream.functions import accumulators as known

Json = dict[str, Any]
_SERIALIZED = "(serialized)"
_OWN = {kind.__name__: kind for kind in (known.IntCounter, known.DoubleCounter, known.ListAccumulator, known.Histogram)}


class _PlainUnpickler(pickle.Unpickler):
    """Reads Millstream's accumulators, numbers, texts and containers of them, and refuses what would run other code."""

    def find_class(self, module: str, name: str) -> Any:
        if module == known.__name__ and name in _OWN:
            return _OWN[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")


class _Merged(Struct):
    """Of one name. `readable` is None when the value cannot be read, or not be merged."""

    kind: str
    parts: list[bytes]
    readable: Any = None

    @property
    def shown(self) -> str:
        """The value for people."""
        return _SERIALIZED if self.readable is None else str(_value(self.readable))

    @property
    def serialized(self) -> bytes | None:
        """The value as a client unpickles it; None of several that only the client can merge."""
        if self.readable is not None:
            return pickle.dumps(_value(self.readable))
        return self.parts[0] if len(self.parts) == 1 else None


def _value(read: Any) -> Any:
    return read.get_local_value() if isinstance(read, known.Accumulator) else read


def _read(content: bytes) -> Any:
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except Exception:  # whatever a damaged or foreign pickle raises
        return None


def _merge(left: Iterable[Accumulator]) -> dict[str, _Merged]:
    """By name, in the order in which the names first came."""
    found: dict[str, _Merged] = {}
    for one in left:
        read, merged = _read(one.value), found.get(one.name)
        if merged is None:
            found[one.name] = _Merged(one.kind, [one.value], read)
            continue
        merged.parts.append(one.value)
        if isinstance(read, known.Accumulator) and type(read) is type(merged.readable):
            try:
                merged.readable.merge(read)
                continue
            except (TypeError, ValueError, AttributeError):  # the values are of kinds that do not go together
                pass
        merged.readable = None
    return found


def merged(left: Iterable[Accumulator]) -> list[Json]:
    """One entry for each name."""
    return [{"name": name, "type": one.kind, "value": one.shown} for name, one in _merge(left).items()]


def of_job(details: JobDetails, with_serialized: bool) -> Json:
    """`/jobs/:jobid/accumulators`, and the counters of its tasks so far."""
    found = _merge(details.accumulators)
    serialized = {name: one.serialized for name, one in found.items()} if with_serialized else {}
    return {
        "job-accumulators": [],
        "user-task-accumulators": [
            *({"name": name, "type": one.kind, "value": one.shown} for name, one in found.items()),
            *counters(details.vertices),
        ],
        "serialized-user-task-accumulators": {
            name: base64.b64encode(value).decode() for name, value in serialized.items() if value is not None
        },
    }


def counters(vertices: Iterable[VertexStatus]) -> list[Json]:
    """What the functions of these vertices have counted so far, added up."""
    counted: dict[str, int] = {}
    for vertex in vertices:
        for subtask in vertex.subtasks:
            for name, count in subtask.metrics.counters.items():
                counted[name] = counted.get(name, 0) + count
    return [counter(name, count) for name, count in counted.items()]


def counter(name: str, count: int) -> Json:
    """One of them."""
    return {"name": name, "type": "Counter", "value": str(count)}
