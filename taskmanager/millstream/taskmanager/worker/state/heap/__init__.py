"""The heap state backend."""

from __future__ import annotations

from millstream.taskmanager.worker.state.heap.backend import HashMapStateBackend
from millstream.taskmanager.worker.state.heap.keyed import HeapKeyedStateBackend
from millstream.taskmanager.worker.state.heap.operator import HeapOperatorStateBackend

__all__ = ["HashMapStateBackend", "HeapKeyedStateBackend", "HeapOperatorStateBackend"]
