"""The main of a job's coordinator process: `python -m millstream.jobmanager.coordinator --control-fd N`.

It runs the split enumerators of the job's sources, in the job's own environment and on one thread, and exchanges events
with their readers through the job manager. Nothing of the user's runs in the job manager itself.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from millstream.core.configuration import Configuration
from millstream.core.control_pipe import ControlPipe, end_with_parent
from millstream.core.logs import set_up_logging
from millstream.core.pickling import to_bytes
from millstream.core.tracebacks import one_line, user_traceback
from millstream.datastream.connectors.base import Source, SplitEnumerator, SplitEnumeratorContext
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

log = logging.getLogger(__name__)


class EnumeratorContext(SplitEnumeratorContext[Any]):
    """One enumerator's way out."""

    def __init__(self, coordinator: Coordinator, job_id: str, source: pb.SourceToCoordinate) -> None:
        self._coordinator = coordinator
        self._job_id = job_id
        self._vertex_id = source.vertex_id
        self._parallelism = source.parallelism
        self.readers: set[int] = set()

    def current_parallelism(self) -> int:
        """The number of readers."""
        return self._parallelism

    def registered_readers(self) -> set[int]:
        """The subtasks whose readers have started."""
        return set(self.readers)

    def assign_splits(self, splits: list[Any], subtask: int) -> None:
        """Gives splits to a reader."""
        self._send(subtask, splits=to_bytes(splits))

    def signal_no_more_splits(self, subtask: int) -> None:
        """Tells a reader that it has all its splits."""
        event = self._event(subtask)
        event.no_more_splits.SetInParent()
        self._coordinator.send(pb.CoordinatorMessage(event=event))

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        """Sends anything picklable to a reader."""
        self._send(subtask, custom=to_bytes(event))

    def call_async(self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        """Runs blocking work on another thread, and its continuation on the coordinator's."""

        def run() -> None:
            try:
                result, error = work(), None
            except BaseException as raised:  # whatever it is, the enumerator waits for an answer
                result, error = None, raised
            self._coordinator.later(self._vertex_id, lambda: then(result, error))

        threading.Thread(target=run, daemon=True).start()

    def _event(self, subtask: int) -> pb.CoordinatorEvent:
        return pb.CoordinatorEvent(job_id=self._job_id, vertex_id=self._vertex_id, subtask=subtask)

    def _send(self, subtask: int, **content: bytes) -> None:
        event = self._event(subtask)
        for name, value in content.items():
            setattr(event, name, value)
        self._coordinator.send(pb.CoordinatorMessage(event=event))


class Coordinator:
    """All enumerators of a job, on one thread."""

    def __init__(self, send: Callable[[pb.CoordinatorMessage], None]) -> None:
        self.send = send
        self._work: queue.SimpleQueue[tuple[str, Callable[[], None]] | None] = queue.SimpleQueue()
        self._enumerators: dict[str, tuple[SplitEnumerator[Any], EnumeratorContext]] = {}
        self._names: dict[str, str] = {}
        self._job_id = ""

    def later(self, vertex_id: str, work: Callable[[], None]) -> None:
        """Queues work of one enumerator; from any thread."""
        self._work.put((vertex_id, work))

    def command(self, command: pb.CoordinatorCommand) -> None:
        """Queues what the job manager wants; from any thread."""
        match command.WhichOneof("kind"):
            case "start":
                start = command.start
                self._job_id = start.job_id
                for source in start.sources:
                    self._names[source.vertex_id] = source.name
                    self._work.put((source.vertex_id, lambda s=source: self._start(start.job_id, s)))  # type: ignore[misc]  # the default binds the loop's variable
                self._work.put(("", lambda: self.send(_ready())))
            case "reader_event":
                event = command.reader_event
                self._work.put((event.vertex_id, lambda: self._reader_event(event)))
            case _:
                self._work.put(None)

    def run(self) -> None:
        """Works until told to stop; what an enumerator raises fails the job."""
        while (item := self._work.get()) is not None:
            vertex_id, work = item
            try:
                work()
            except Exception as error:
                self._fail(vertex_id, error)
        for vertex_id, (enumerator, _) in self._enumerators.items():
            try:
                enumerator.close()
            except Exception:
                log.exception("closing the enumerator of %s failed", self._names.get(vertex_id, vertex_id))

    def _start(self, job_id: str, source: pb.SourceToCoordinate) -> None:
        context = EnumeratorContext(self, job_id, source)
        loaded: Source[Any] = pickle.loads(source.source)
        enumerator = loaded.create_enumerator(context)
        self._enumerators[source.vertex_id] = (enumerator, context)
        enumerator.start()

    def _reader_event(self, event: pb.ReaderEvent) -> None:
        if event.vertex_id not in self._enumerators:
            return  # its start failed, and so does the job
        enumerator, context = self._enumerators[event.vertex_id]
        match event.WhichOneof("kind"):
            case "registered":
                context.readers.add(event.subtask)
                enumerator.add_reader(event.subtask)
            case "split_request":
                enumerator.handle_split_request(event.subtask, event.split_request)
            case "custom":
                enumerator.handle_source_event(event.subtask, pickle.loads(event.custom))
            case "splits_returned":
                enumerator.add_splits_back(pickle.loads(event.splits_returned), event.subtask)

    def _fail(self, vertex_id: str, error: Exception) -> None:
        failure = status_pb2.TaskFailure(
            job_id=self._job_id,
            vertex_id=vertex_id,
            task_name=f"{self._names.get(vertex_id, '')} (split enumerator)",
            operator_name=self._names.get(vertex_id, ""),
            exception=one_line(error),
            traceback=user_traceback(error),
            timestamp=time.time_ns() // 1_000_000,
        )
        self.send(pb.CoordinatorMessage(failure=failure))


def _ready() -> pb.CoordinatorMessage:
    message = pb.CoordinatorMessage()
    message.ready.SetInParent()
    return message


def run_coordinator(pipe: ControlPipe) -> None:
    """Works until told to stop, or until the job manager is gone."""
    coordinator = Coordinator(lambda message: pipe.send(message.SerializeToString()))
    pipe.start(
        lambda raw: coordinator.command(pb.CoordinatorCommand.FromString(raw)),
        lambda: coordinator.command(pb.CoordinatorCommand()),
    )
    coordinator.run()


def main() -> int:
    """Reads commands on the control thread, works on this one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_up_logging("coordinator", Configuration())
    pipe = ControlPipe(socket.socket(fileno=arguments.control_fd))
    coordinator = Coordinator(lambda message: pipe.send(message.SerializeToString()))
    pipe.start(lambda raw: coordinator.command(pb.CoordinatorCommand.FromString(raw)), end_with_parent)
    coordinator.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
