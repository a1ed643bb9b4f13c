"""What an index of keys does, as a dictionary and a plain loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class SlotsModel:
    """Slots of hashable keys."""

    def __init__(self) -> None:
        self.slot_of: dict[Any, int] = {}
        self.bound = 0
        self._freed: list[int] = []

    def slots(self, keys: Iterable[Any]) -> tuple[list[int], list[int]]:
        slots, rows = [], []
        for row, key in enumerate(keys):
            if key not in self.slot_of:
                rows.append(row)
                if self._freed:
                    self.slot_of[key] = self._freed.pop()
                else:
                    self.slot_of[key] = self.bound
                    self.bound += 1
            slots.append(self.slot_of[key])
        return slots, rows

    def find(self, keys: Iterable[Any]) -> list[int]:
        return [self.slot_of.get(key, -1) for key in keys]

    def remove(self, keys: Iterable[Any]) -> list[int]:
        slots = [self.slot_of.pop(key, -1) for key in keys]
        self._freed += [slot for slot in slots if slot >= 0]
        return slots

    def keys_by_slot(self) -> dict[int, Any]:
        """Ascending."""
        return dict(sorted((slot, key) for key, slot in self.slot_of.items()))
