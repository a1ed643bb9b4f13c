"""One figure over the last hour, in a fixed number of bytes. Pure.

Time is counted in slots of two seconds. The last five minutes are kept slot by slot, what is older as the mean of every
ten slots. A slot in which nothing was measured holds no value: it is a gap in a plot, and not a zero.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

SLOT_S = 2
FINE = 150
"""Slots that are kept as they are: five minutes."""
FACTOR = 10
COARSE = 180
"""Means of `FACTOR` slots: one hour."""
RING_BYTES = 4 * (FINE + COARSE)
_NAN = math.nan


class Ring:
    """Slots only increase. Those that are left out have no value."""

    __slots__ = ("_coarse", "_fine", "_last")

    def __init__(self) -> None:
        self._fine = array("f", [_NAN]) * FINE
        self._coarse = array("f", [_NAN]) * COARSE
        self._last = -1

    def put(self, slot: int, value: float | None) -> None:
        """The value of a slot that comes after the last one."""
        if self._last >= 0 and self._last + 1 < slot:
            for missed in range(max(self._last + 1, slot - FACTOR * COARSE), slot):
                self._set(missed, _NAN)
        self._set(slot, _NAN if value is None else value)

    def _set(self, slot: int, value: float) -> None:
        self._fine[slot % FINE] = value
        self._last = slot
        if slot % FACTOR == FACTOR - 1:
            self._coarse[slot // FACTOR % COARSE] = _mean([self._fine[s % FINE] for s in range(slot - 9, slot + 1)])

    def at(self, axis: Sequence[tuple[int, int]]) -> list[float | None]:
        """The values at an axis that ends at the last slot or before."""
        fine, coarse, last = self._fine, self._coarse, self._last
        found: list[float | None] = []
        for slot, width in axis:
            if slot > last:
                found.append(None)
                continue
            value = fine[slot % FINE] if width == 1 else coarse[slot // FACTOR % COARSE]
            found.append(None if math.isnan(value) else float(f"{value:.4g}"))
        return found


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else _NAN


def axis(first: int, now: int) -> list[tuple[int, int]]:
    """From the first recorded slot to this one: the last slot of each value, and of how many slots it is."""
    fine_from = -(-max(0, now - FINE + 1) // FACTOR) * FACTOR  # the first whole group of which all slots are kept
    groups = range(max(first // FACTOR, now // FACTOR - COARSE + 1, 0), fine_from // FACTOR)
    coarse = [(group * FACTOR + FACTOR - 1, FACTOR) for group in groups]
    return coarse + [(slot, 1) for slot in range(max(first, fine_from), now + 1)]
