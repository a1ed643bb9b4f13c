"""The `hashmap` state backend: everything in this process's memory."""

from __future__ import annotations

from millstream.core.clock import Clock
from millstream.core.records.types import TypeInformation
from millstream.taskmanager.worker.state.heap.keyed import HeapKeyedStateBackend
from millstream.taskmanager.worker.state.heap.operator import HeapOperatorStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex


class HashMapStateBackend:
    """Creates heap backends; with `incremental`, they track which key groups are modified."""

    def __init__(self, incremental: bool = False) -> None:
        self._incremental = incremental

    def keyed_backend(
        self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock
    ) -> HeapKeyedStateBackend:
        """The keyed state of an operator in a subtask that owns the index's key groups."""
        return HeapKeyedStateBackend(operator_name, key_type, index, clock, self._incremental)

    def operator_backend(self, operator_name: str) -> HeapOperatorStateBackend:
        """The operator state of an operator in a subtask."""
        return HeapOperatorStateBackend(operator_name)
