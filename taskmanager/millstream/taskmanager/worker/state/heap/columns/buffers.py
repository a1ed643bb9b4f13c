"""One column of a table's values, by slot: a growing NumPy array, or chunks of Arrow for values of variable length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Slots = npt.NDArray[np.int64]

_LITTLE_DEAD = 4096  # values that are not worth copying the others
_MERGED = 1 << 30  # bytes: chunks that are larger stay apart, since Arrow has limits to the size of an array


class Buffer(Protocol):
    """The values of one column."""

    def put(self, slots: Slots, values: Any) -> None:
        """Sets the values of slots from an Arrow array; of equal slots, the last one's."""

    def take(self, slots: Slots) -> Any:
        """The values of slots that have been set, as an Arrow array."""

    def is_wasteful(self, used: int) -> bool:
        """Whether compacting is worth it, when so many slots are in use."""

    def compact(self, used: Slots) -> None:
        """Gives back the memory of values that were replaced, or whose slots are not in use."""


def buffer_of(kind: Any) -> Buffer:
    """An empty column of an Arrow type."""
    import pyarrow as pa

    of = pa.types
    if (of.is_primitive(kind) or of.is_decimal(kind)) and not of.is_null(kind):
        return FixedBuffer(kind)
    return ArrowBuffer(kind)


def resized(array: Any, length: int, fill: Any = 0) -> Any:
    """Returns the array, or one with more room: twice as much as before, so that growing by one is cheap."""
    import numpy as np

    if length <= len(array):
        return array
    larger = np.full(max(length, 2 * len(array), 16), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def first_occurrences(slots: Slots) -> npt.NDArray[np.bool_]:
    """Which of the slots have not occurred before. There is no need to sort them, as `np.unique` does."""
    import numpy as np

    if not len(slots):
        return np.zeros(0, np.bool_)
    rows = np.arange(len(slots))
    first = np.empty(int(slots.max()) + 1, np.int64)
    first[slots[::-1]] = rows[::-1]  # the last to be written is the first row
    found: npt.NDArray[np.bool_] = first[slots] == rows
    return found


class FixedBuffer:
    """Values of a fixed number of bytes. There is an array of which are valid once one is not."""

    def __init__(self, kind: Any) -> None:
        import numpy as np
        import pyarrow as pa

        self._type = kind
        self._stored = pa.uint8() if pa.types.is_boolean(kind) else kind
        width = self._stored.bit_width // 8
        self._values: npt.NDArray[Any] = np.zeros(0, f"u{width}" if width <= 8 else f"V{width}")
        self._valid: npt.NDArray[np.bool_] | None = None

    def put(self, slots: Slots, values: Any) -> None:
        """See `Buffer`."""
        import numpy as np

        bound = int(slots.max()) + 1
        if self._values.dtype.kind == "V" and bound > len(self._values):
            larger = np.zeros(max(bound, 2 * len(self._values)), self._values.dtype)
            larger[: len(self._values)] = self._values
            self._values = larger
        self._values = resized(self._values, bound)
        if values.null_count and self._valid is None:
            self._valid = np.ones(len(self._values), np.bool_)
        if self._valid is not None:
            self._valid = resized(self._valid, len(self._values), True)
            self._valid[slots] = values.is_valid().to_numpy(zero_copy_only=False)
        stored = values if self._stored is self._type else values.cast(self._stored)
        raw = np.frombuffer(stored.buffers()[1], self._values.dtype, len(stored) + stored.offset)
        self._values[slots] = raw[stored.offset :]

    def take(self, slots: Slots) -> Any:
        """See `Buffer`."""
        import pyarrow as pa

        validity = None
        if self._valid is not None:
            valid = self._valid[slots]
            validity = None if valid.all() else pa.array(valid).buffers()[1]
        buffers = [validity, pa.py_buffer(self._values[slots])]
        return pa.Array.from_buffers(self._stored, len(slots), buffers).cast(self._type)

    def is_wasteful(self, used: int) -> bool:
        """Never: the memory of a slot is reused with it."""
        return False

    def compact(self, used: Slots) -> None:
        """Does nothing."""


class ArrowBuffer:
    """Values of any type. Those of a call are a chunk; chunks are merged so that there are few, and never change."""

    def __init__(self, kind: Any) -> None:
        import numpy as np
        import pyarrow as pa

        wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        self._type, self._stored = kind, wide.get(kind, kind)
        self._chunks: list[Any] = []
        self._ends: list[int] = []  # of the chunks, in values
        self._places: Slots = np.zeros(0, np.int64)  # by slot, in all chunks

    def put(self, slots: Slots, values: Any) -> None:
        """See `Buffer`."""
        import numpy as np

        begin = self._ends[-1] if self._ends else 0
        self._places = resized(self._places, int(slots.max()) + 1)
        self._places[slots] = np.arange(begin, begin + len(values))
        self._append(values.cast(self._stored))

    def take(self, slots: Slots) -> Any:
        """See `Buffer`."""
        return self._at(self._places[slots]).cast(self._type)

    def is_wasteful(self, used: int) -> bool:
        """See `Buffer`."""
        return bool(self._ends) and self._ends[-1] - used > max(_LITTLE_DEAD, used)

    def compact(self, used: Slots) -> None:
        """See `Buffer`."""
        import numpy as np
        import pyarrow as pa

        order = used[np.argsort(self._places[used])]
        places = self._places[order]
        cuts = np.searchsorted(places, [0, *self._ends])
        chunks, begins = self._chunks, [0, *self._ends]
        self._chunks, self._ends = [], []
        for number, chunk in enumerate(chunks):
            those = places[cuts[number] : cuts[number + 1]]
            if len(those):
                self._append(chunk.take(pa.array(those - begins[number])))
        self._places[order] = np.arange(len(order))

    def _append(self, chunk: Any) -> None:
        import pyarrow as pa

        chunks = self._chunks
        while chunks and len(chunks[-1]) <= 2 * len(chunk) and chunks[-1].nbytes + chunk.nbytes < _MERGED:
            chunk = pa.concat_arrays([chunks.pop(), chunk])
            self._ends.pop()
        chunks.append(chunk)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(chunk))

    def _at(self, places: Slots) -> Any:
        import numpy as np
        import pyarrow as pa

        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(places))
        which = np.searchsorted(self._ends, places, side="right")
        order = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(len(self._chunks) + 1))
        parts, begins = [pa.nulls(0, self._stored)], [0, *self._ends]
        for number, chunk in enumerate(self._chunks):
            those = places[order[cuts[number] : cuts[number + 1]]]
            if len(those):
                parts.append(chunk.take(pa.array(those - begins[number])))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))
