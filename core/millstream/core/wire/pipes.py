"""The messages between processes that run a job's code and their parent processes, over a pipe.

Separate from the services' contracts: such a process starts with every job, and each message class that it imports
takes 0.7 ms.
"""

from __future__ import annotations

from millstream.core.messages import sources, task_manager
from millstream.core.wire.wire import Wire
from millstream.proto import taskmanager_pb2

WORKER_COMMAND: Wire[task_manager.WorkerCommand] = Wire(task_manager.WorkerCommand, taskmanager_pb2.WorkerCommand)
WORKER_MESSAGE: Wire[task_manager.FromWorker] = Wire(task_manager.FromWorker, taskmanager_pb2.WorkerMessage)
ENUMERATORS_COMMAND: Wire[sources.EnumeratorsCommand] = Wire(
    sources.EnumeratorsCommand, taskmanager_pb2.EnumeratorsCommand
)
ENUMERATORS_MESSAGE: Wire[sources.EnumeratorsMessage] = Wire(
    sources.EnumeratorsMessage, taskmanager_pb2.EnumeratorsMessage
)
