"""`SlotSharingGroup` and `MemorySize`, with PyFlink's names: operators that share slots, and the slots' resources.

The slots of a group with resources are allocated on task managers whose host has enough cores and memory, beyond those
of the slots of other groups with resources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.core.errors import InvalidProgramError

_KIBI = 1024
_UNITS = ("kb", "mb", "gb", "tb")


@dataclass(frozen=True, slots=True, order=True)
class MemorySize:
    """A number of bytes."""

    bytes_size: int

    def __post_init__(self) -> None:
        if isinstance(self.bytes_size, bool) or not isinstance(self.bytes_size, int) or self.bytes_size < 0:
            raise InvalidProgramError(f"a MemorySize is a whole number of bytes, not {self.bytes_size!r}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Returns a size of `mebi_bytes` times 1024 * 1024 bytes."""
        return MemorySize(mebi_bytes * _KIBI**2)

    def get_bytes(self) -> int:
        """Returns the number of bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """Returns the size in kibibytes, rounded down."""
        return self.bytes_size // _KIBI

    def get_mebi_bytes(self) -> int:
        """Returns the size in mebibytes, rounded down."""
        return self.bytes_size // _KIBI**2

    def get_gibi_bytes(self) -> int:
        """Returns the size in gibibytes, rounded down."""
        return self.bytes_size // _KIBI**3

    def get_tebi_bytes(self) -> int:
        """Returns the size in tebibytes, rounded down."""
        return self.bytes_size // _KIBI**4

    def __str__(self) -> str:
        size, unit = self.bytes_size, "bytes"
        for larger in _UNITS:
            if size == 0 or size % _KIBI:
                break
            size, unit = size // _KIBI, larger
        return f"{size} {unit}"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name, and the resources of each slot of the group, if any. Created by `SlotSharingGroup.builder(name)`."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Returns the name of the group."""
        return self.name

    def get_cpu_cores(self) -> float | None:
        """Returns the number of cores of each slot; None if not set."""
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Returns the task heap memory of each slot; None if not set. See `memory_bytes`."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Returns the task off-heap memory of each slot; None if not set."""
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Returns the managed memory of each slot; None if not set."""
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Returns the external resources of each slot by name."""
        return dict(self.external_resources)

    @property
    def memory_bytes(self) -> int:
        """The memory of each slot: the sum of the three kinds."""
        kinds = (self.task_heap_memory, self.task_off_heap_memory, self.managed_memory)
        return sum(size.get_bytes() for size in kinds if size is not None)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Returns a builder of the group `name`."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Builds a `SlotSharingGroup`. All methods except `build` return the builder."""

        def __init__(self, name: str) -> None:
            if not isinstance(name, str) or not name:
                raise InvalidProgramError(f"SlotSharingGroup: expected a group's name, got {name!r}")
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Sets the number of cores of each slot; returns this builder.

            Raises `InvalidProgramError` unless `cpu_cores` is a number above 0.
            """
            self._cpu_cores = _above_zero("set_cpu_cores", cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory of each slot; returns this builder.

            Raises `InvalidProgramError` unless `task_heap_memory` is a `MemorySize` above 0.
            """
            size = _size("set_task_heap_memory", task_heap_memory)
            if not size.get_bytes():
                raise InvalidProgramError("set_task_heap_memory: a slot needs more than 0 bytes")
            self._memory["task_heap_memory"] = size
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the memory of each slot to `task_heap_memory_mb` mebibytes; returns this builder."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Adds `task_off_heap_memory` to the memory of each slot; returns this builder."""
            self._memory["task_off_heap_memory"] = _size("set_task_off_heap_memory", task_off_heap_memory)
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the additional memory of each slot to `task_off_heap_memory_mb` mebibytes; returns this builder."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Adds `managed_memory` to the memory of each slot; returns this builder."""
            self._memory["managed_memory"] = _size("set_managed_memory", managed_memory)
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the additional memory of each slot to `managed_memory_mb` mebibytes; returns this builder."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Sets the amount `value` of the external resource `name`, such as GPUs; returns this builder.

            No task manager offers external resources.
            """
            self._external[name] = _above_zero("set_external_resource", value)
            return self

        def build(self) -> SlotSharingGroup:
            """Returns the group.

            Raises `InvalidProgramError` if it has resources, but no number of cores or no task heap memory.
            """
            if self._cpu_cores is None and not self._memory and not self._external:
                return SlotSharingGroup(self._name)
            if self._cpu_cores is None or "task_heap_memory" not in self._memory:
                raise InvalidProgramError(
                    f"SlotSharingGroup '{self._name}': a group with resources states how many cores and how "
                    "much task heap memory its slots need: set_cpu_cores and set_task_heap_memory"
                )
            return SlotSharingGroup(self._name, self._cpu_cores, **self._memory, external_resources=self._external)


def _above_zero(method: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < float("inf"):
        raise InvalidProgramError(f"{method}: expected a number above 0, not {number!r}")
    return float(number)


def _size(method: str, size: Any) -> MemorySize:
    if not isinstance(size, MemorySize):
        raise InvalidProgramError(f"{method}: expected a MemorySize, not {size!r}")
    return size
