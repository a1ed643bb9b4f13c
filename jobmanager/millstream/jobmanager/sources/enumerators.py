"""The main of a job's enumerator process: `python -m millstream.jobmanager.sources.enumerators --control-fd N`.

It runs the split enumerators of the job's sources, in the job's own environment and on one thread, and exchanges events
with their readers through the job manager. Nothing of the user's runs in the job manager itself.

The answer to a snapshot leaves on the same pipe as assignments of splits, after all that were made before it. A reset
and a return of splits are confirmed with `ready`: what was sent before that belongs to readers that are gone.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import pickle
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import UnrecoverableError
from millstream.core.logs.log_files import bound_output
from millstream.core.logs.logs import set_up_logging
from millstream.core.logs.tracebacks import error_signature, one_line, user_traceback
from millstream.core.pickling import load_program, to_bytes
from millstream.core.processes.control_pipe import ControlPipe, end_with_parent
from millstream.core.processes.forking import leave_if_forked, loops_start_here
from millstream.core.settings.configuration import Configuration
from millstream.datastream.connectors.base import Source, SplitEnumerator, SplitEnumeratorContext
from millstream.datastream.connectors.errors import ConnectorError
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

log = logging.getLogger(__name__)


class EnumeratorContext(SplitEnumeratorContext[Any]):
    """One enumerator's way out."""

    def __init__(self, enumerators: Enumerators, job_id: str, source: pb.SourceToEnumerate) -> None:
        self._enumerators = enumerators
        self._job_id = job_id
        self._vertex_id = source.vertex_id
        self._parallelism = source.parallelism
        self.readers: set[int] = set()
        self.is_over = False

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
        self._pass_on(event)

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        """Sends anything picklable to a reader."""
        self._send(subtask, custom=to_bytes(event))

    def call_async(self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        """Runs blocking work on another thread, and its continuation on the enumerators'."""

        def run() -> None:
            try:
                result, error = work(), None
            except BaseException as raised:  # whatever it is, the enumerator waits for an answer
                result, error = None, raised
            self._enumerators.later(self._vertex_id, lambda: None if self.is_over else then(result, error))

        threading.Thread(target=run, daemon=True).start()

    def _event(self, subtask: int) -> pb.EnumeratorEvent:
        if subtask not in self.readers and not self.is_over:
            raise ConnectorError(
                f"there is no reader {subtask}: splits and events reach only those that have registered, of "
                f"{self._parallelism} now {sorted(self.readers)}; see registered_readers() and add_reader()"
            )
        return pb.EnumeratorEvent(job_id=self._job_id, vertex_id=self._vertex_id, subtask=subtask)

    def _send(self, subtask: int, **content: bytes) -> None:
        event = self._event(subtask)
        for name, value in content.items():
            setattr(event, name, value)
        self._pass_on(event)

    def _pass_on(self, event: pb.EnumeratorEvent) -> None:
        if not self.is_over:  # an enumerator that was reset has no readers any more
            self._enumerators.send(pb.EnumeratorsMessage(event=event))


class Enumerators:
    """All enumerators of a job, on one thread."""

    def __init__(self, send: Callable[[pb.EnumeratorsMessage], None], clock: Clock) -> None:
        loops_start_here()
        self.send = send
        self._clock = clock
        self._work: queue.SimpleQueue[tuple[str, Callable[[], None]] | None] = queue.SimpleQueue()
        self._enumerators: dict[str, tuple[SplitEnumerator[Any], EnumeratorContext]] = {}
        self._sources: dict[str, pb.SourceToEnumerate] = {}
        self._started: set[str] = set()
        self._names: dict[str, str] = {}
        self._job_id = ""

    def later(self, vertex_id: str, work: Callable[[], None]) -> None:
        """Queues work of one enumerator; from any thread."""
        self._work.put((vertex_id, work))

    def command(self, command: pb.EnumeratorsCommand) -> None:
        """Queues what the job manager wants; from any thread."""
        match command.WhichOneof("kind"):
            case "start":
                start = command.start
                self._job_id = start.job_id
                for source in start.sources:
                    self._names[source.vertex_id] = source.name
                    self._sources[source.vertex_id] = source
                    self._work.put((source.vertex_id, lambda s=source: self._start(start.job_id, s)))  # type: ignore[misc]  # the default binds the loop's variable
                self._work.put(("", self._report_started))
            case "reader_event":
                event = command.reader_event
                self._work.put((event.vertex_id, lambda: self._reader_event(event)))
            case "snapshot":
                checkpoint_id = command.snapshot.checkpoint_id
                self._work.put(("", lambda: self._snapshot(checkpoint_id)))
            case "checkpoint_notice":
                notice = command.checkpoint_notice
                for vertex_id in self._sources:
                    self._work.put((vertex_id, lambda v=vertex_id: self._notify(v, notice)))  # type: ignore[misc]  # the default binds the loop's variable
            case "reset":
                reset = command.reset
                self._work.put((reset.vertex_id, lambda: self._reset(reset)))
            case _:
                self._work.put(None)

    def run(self) -> None:
        """Works until told to stop; what an enumerator raises fails the job."""
        while (item := self._work.get()) is not None:
            vertex_id, work = item
            try:
                work()
            except BaseException as error:  # also SystemExit: of the user's
                leave_if_forked(error)
                self._fail(vertex_id, error)
            leave_if_forked()
        for vertex_id, (enumerator, _) in self._enumerators.items():
            try:
                enumerator.close()
            except BaseException as error:
                leave_if_forked(error)
                log.exception("closing the enumerator of %s failed", self._names.get(vertex_id, vertex_id))
            leave_if_forked()

    def _start(self, job_id: str, source: pb.SourceToEnumerate) -> None:
        context = EnumeratorContext(self, job_id, source)
        loaded: Source[Any] = load_program(source.source, f"the source '{source.name}'")
        if source.state:
            enumerator = loaded.restore_enumerator(context, pickle.loads(source.state))
        else:
            enumerator = loaded.create_enumerator(context)
        self._enumerators[source.vertex_id] = (enumerator, context)
        enumerator.start()
        self._started.add(source.vertex_id)

    def _report_started(self) -> None:
        """Not when one could not be started: the job restarts with another enumerator process, and waits for that."""
        if self._started == self._sources.keys():
            self.send(_ready())

    def _reader_event(self, event: pb.ReaderEvent) -> None:
        if event.vertex_id not in self._enumerators:
            return  # its start failed, and so does the job
        enumerator, context = self._enumerators[event.vertex_id]
        kind = event.WhichOneof("kind")
        if kind in ("split_request", "custom") and event.subtask not in context.readers:
            return  # of a reader that is gone: the one in its place registers before it asks
        match kind:
            case "registered":
                context.readers.add(event.subtask)
                enumerator.add_reader(event.subtask)
            case "split_request":
                enumerator.handle_split_request(event.subtask, event.split_request)
            case "custom":
                enumerator.handle_source_event(event.subtask, pickle.loads(event.custom))
            case "splits_returned":
                context.readers.discard(event.subtask)
                if splits := pickle.loads(event.splits_returned):
                    enumerator.add_splits_back(splits, event.subtask)
                self.send(_ready())

    def _snapshot(self, checkpoint_id: int) -> None:
        """All enumerators at one moment; what cannot be captured fails the checkpoint, not the job."""
        answer = pb.EnumeratorsSnapshot(checkpoint_id=checkpoint_id)
        for vertex_id, (enumerator, _) in self._enumerators.items():
            try:
                answer.states[vertex_id] = to_bytes(enumerator.snapshot_state(checkpoint_id))
            except BaseException as error:
                leave_if_forked(error)
                log.exception("the enumerator of %s could not be captured", self._names[vertex_id])
                answer.error = f"{self._names[vertex_id]} (split enumerator): {one_line(error)}"
                answer.failure.CopyFrom(self._described(vertex_id, error))
            leave_if_forked()
        self.send(pb.EnumeratorsMessage(snapshotted=answer))

    def _notify(self, vertex_id: str, notice: pb.CheckpointNotice) -> None:
        enumerator, _ = self._enumerators.get(vertex_id, (None, None))
        notify = getattr(enumerator, "notify_checkpoint_complete", None)
        if notify is not None and notice.completed:
            notify(notice.checkpoint_id)

    def _reset(self, reset: pb.ResetSource) -> None:
        """A new enumerator from the state, in place of the one that is there."""
        enumerator, context = self._enumerators.pop(reset.vertex_id, (None, None))
        if enumerator is not None and context is not None:
            context.is_over = True
            enumerator.close()
        source = pb.SourceToEnumerate()
        source.CopyFrom(self._sources[reset.vertex_id])
        source.state = reset.state
        self._start(self._job_id, source)
        self.send(_ready())

    def _fail(self, vertex_id: str, error: BaseException) -> None:
        self.send(pb.EnumeratorsMessage(failure=self._described(vertex_id, error)))

    def _described(self, vertex_id: str, error: BaseException) -> status_pb2.TaskFailure:
        return status_pb2.TaskFailure(
            job_id=self._job_id,
            vertex_id=vertex_id,
            task_name=f"{self._names.get(vertex_id, '')} (split enumerator)",
            operator_name=self._names.get(vertex_id, ""),
            exception=one_line(error),
            traceback=user_traceback(error),
            timestamp=self._clock.now_ms(),
            signature=error_signature(error),
            final=isinstance(error, UnrecoverableError | ImportError),
        )


def _ready() -> pb.EnumeratorsMessage:
    message = pb.EnumeratorsMessage()
    message.ready.SetInParent()
    return message


def run_enumerators(pipe: ControlPipe) -> None:
    """Works until told to stop, or until the job manager is gone."""
    enumerators = Enumerators(lambda message: pipe.send(message.SerializeToString()), SystemClock())
    pipe.start(
        lambda raw: enumerators.command(pb.EnumeratorsCommand.FromString(raw)),
        lambda: enumerators.command(pb.EnumeratorsCommand()),
    )
    enumerators.run()


def main() -> int:
    """Reads commands on the control thread, works on this one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--job", default="")
    parser.add_argument("--logging", default="{}")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)  # a crash of native code tells where in Python it was
    configuration = Configuration(json.loads(arguments.logging))
    bound_output(configuration, owner=False)
    set_up_logging("enumerators", configuration, lambda: arguments.job)
    pipe = ControlPipe(socket.socket(fileno=arguments.control_fd))
    enumerators = Enumerators(lambda message: pipe.send(message.SerializeToString()), SystemClock())
    pipe.start(lambda raw: enumerators.command(pb.EnumeratorsCommand.FromString(raw)), end_with_parent)
    enumerators.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
