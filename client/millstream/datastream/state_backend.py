"""State backends for programs, with PyFlink's names: each stands for a value of `state.backend.type`.

Those that need the JVM, or RocksDB, can be named, so that a program learns from their constructor why it has to change.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from millstream.core.errors import InvalidProgramError
from millstream.core.settings.options.execution import CHECKPOINTING_INCREMENTAL


class StateBackend:
    """Where tasks keep their state."""

    type_name: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class HashMapStateBackend(StateBackend):
    """On the heap of the slot's process."""

    type_name = "hashmap"


class PredefinedOptions(Enum):
    """Settings of RocksDB, for programs that name them: see `EmbeddedRocksDBStateBackend`."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """RocksDB is not a part of Millstream: making one is an error."""

    PredefinedOptions = PredefinedOptions

    def __init__(self, enable_incremental_checkpointing: bool | None = None, *arguments: Any) -> None:
        raise InvalidProgramError(
            "EmbeddedRocksDBStateBackend: there is no RocksDB here; use HashMapStateBackend(), whose state has to fit "
            "into the memory of the slots. Incremental checkpoints are an option of their own: "
            f"{CHECKPOINTING_INCREMENTAL}"
        )


class CustomStateBackend(StateBackend):
    """Of a Java class, which there is no JVM for: making one is an error."""

    def __init__(self, *arguments: Any) -> None:
        raise InvalidProgramError(
            "CustomStateBackend: it stands for a Java class, and there is no JVM; use HashMapStateBackend()"
        )


STATE_BACKENDS: dict[str, type[StateBackend]] = {HashMapStateBackend.type_name: HashMapStateBackend}
"""All that there are, by name."""
