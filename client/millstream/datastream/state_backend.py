"""State backends for programs, with PyFlink's names: each stands for a value of `state.backend.type`."""

from __future__ import annotations

from typing import ClassVar


class StateBackend:
    """Where tasks keep their state."""

    type_name: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class HashMapStateBackend(StateBackend):
    """On the heap of the slot's process."""

    type_name = "hashmap"


STATE_BACKENDS: dict[str, type[StateBackend]] = {HashMapStateBackend.type_name: HashMapStateBackend}
"""All of them by name."""
