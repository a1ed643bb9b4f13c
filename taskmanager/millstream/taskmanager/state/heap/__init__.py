"""The heap state backend."""

from __future__ import annotations

from millstream.taskmanager.state.heap.backend import HashMapStateBackend
from millstream.taskmanager.state.heap.keyed import HeapKeyedStateBackend
from millstream.taskmanager.state.heap.operator import HeapOperatorStateBackend

__all__ = ["HashMapStateBackend", "HeapKeyedStateBackend", "HeapOperatorStateBackend"]
