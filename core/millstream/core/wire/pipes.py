"""What the processes that run a job's own code exchange with those that started them, over a pipe.

Apart from the services' contracts: such a process starts with every job, and each class of a message that it imports
takes 0.7 ms of that.
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
