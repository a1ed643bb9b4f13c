"""The main of a job's enumerator process: `python -m millstream.jobmanager.sources.enumerators --control-fd N`.

It runs the split enumerators of the job's sources, in the job's own environment and on one thread, and exchanges events
with their readers through the job manager. The job manager itself runs no user code.

When another job manager led the job before and its tasks continue, enumerators receive the splits that were assigned to
their readers since the restored states. If an enumerator cannot continue with that, it refuses, and the job restarts.

The result of a snapshot is sent on the same pipe as assignments of splits, after all assignments before it. A reset and
a return of splits are confirmed with `ready`: what was sent before that belongs to readers that no longer exist.

The figures of enumerators, which are the metrics of the sources' coordinators, are reported a second after a change,
and not while nothing changes.
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
from functools import partial
from typing import Any, assert_never

from msgspec.structs import replace

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import UnrecoverableError
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import NO_JOB, JobId, VertexId
from millstream.core.logs.log_files import bound_output
from millstream.core.logs.logs import set_up_logging
from millstream.core.logs.origins import Origin
from millstream.core.logs.tracebacks import error_signature, one_line, user_traceback
from millstream.core.messages.checkpoints import CheckpointNotice
from millstream.core.messages.sources import (
    Custom,
    EnumeratorEvent,
    EnumeratorFigures,
    EnumeratorsCommand,
    EnumeratorsMessage,
    EnumeratorsSnapshot,
    NoMoreSplits,
    ReaderEvent,
    Ready,
    Registered,
    ResetSource,
    SnapshotEnumerators,
    SourceToEnumerate,
    SplitRequest,
    Splits,
    SplitsReturned,
    StartEnumerators,
    Stop,
    TakeoverRefused,
)
from millstream.core.pickling import load_program, to_bytes
from millstream.core.processes.control_pipe import ControlPipe, end_with_parent
from millstream.core.processes.forking import leave_if_forked, loops_start_here
from millstream.core.processes.titles import set_title
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.pipes import ENUMERATORS_COMMAND, ENUMERATORS_MESSAGE
from millstream.datastream.connectors.base import Source, SplitEnumerator, SplitEnumeratorContext
from millstream.datastream.connectors.errors import ConnectorError

log = logging.getLogger(__name__)
_ALL = VertexId("")  # for work that belongs to no single source
_REPORTED_AFTER = 1.0  # seconds


class EnumeratorContext(SplitEnumeratorContext[Any]):
    """The context of one enumerator, through which it acts on its readers."""

    def __init__(self, enumerators: Enumerators, job_id: JobId, source: SourceToEnumerate) -> None:
        self._enumerators = enumerators
        self._job_id = job_id
        self._vertex_id = source.vertex_id
        self._parallelism = source.parallelism
        self.readers: set[int] = set()
        self.assigned = self.returned = self.taken = self.sent = 0
        self._over = threading.Event()

    def current_parallelism(self) -> int:
        """Returns the number of readers."""
        return self._parallelism

    def registered_readers(self) -> set[int]:
        """Returns the subtasks whose readers have registered."""
        return set(self.readers)

    def assign_splits(self, splits: list[Any], subtask: int) -> None:
        """Assigns splits to a reader."""
        self._send(subtask, Splits(to_bytes(splits)))
        self.assigned += len(splits)

    def signal_no_more_splits(self, subtask: int) -> None:
        """Notifies a reader that it gets no more splits."""
        self._send(subtask, NoMoreSplits())

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        """Sends a picklable event to a reader."""
        self._send(subtask, Custom(to_bytes(event)))

    def end(self) -> None:
        """Ends the context of a closed enumerator: it sends nothing more, and delayed work is not started."""
        self._over.set()

    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        """Runs blocking work on another thread, and its continuation on the enumerators' thread."""

        def run() -> None:
            if delay and self._over.wait(delay):
                return
            try:
                result, error = work(), None
            except BaseException as raised:  # also SystemExit: the enumerator waits for the result
                result, error = None, raised
            self._enumerators.later(self._vertex_id, lambda: None if self._over.is_set() else then(result, error))

        threading.Thread(target=run, daemon=True).start()

    def _send(self, subtask: int, kind: Splits | NoMoreSplits | Custom) -> None:
        if self._over.is_set():
            return  # an enumerator that was reset has no readers
        if subtask not in self.readers:
            raise ConnectorError(
                f"there is no reader {subtask}: splits and events can only be sent to registered readers, which are "
                f"{sorted(self.readers)} of {self._parallelism}; see registered_readers() and add_reader()"
            )
        self._enumerators.send(EnumeratorEvent(self._job_id, self._vertex_id, subtask, kind))
        self.sent += 1

    def figures(self, unassigned: int | None) -> EnumeratorFigures:
        """Returns the figures of the enumerator so far."""
        return EnumeratorFigures(
            self._vertex_id, len(self.readers), self.assigned, self.returned, self.taken, self.sent, unassigned
        )


class Enumerators:
    """All enumerators of a job, on one thread."""

    def __init__(self, send: Callable[[EnumeratorsMessage], None], clock: Clock) -> None:
        loops_start_here()
        self.send = send
        self._clock = clock
        self._work: queue.SimpleQueue[tuple[VertexId, Callable[[], None]] | None] = queue.SimpleQueue()
        self._enumerators: dict[VertexId, tuple[SplitEnumerator[Any], EnumeratorContext]] = {}
        self._sources: dict[VertexId, SourceToEnumerate] = {}
        self._started: set[VertexId] = set()
        self._refused = ""
        self._job_id = NO_JOB
        self._reported: dict[VertexId, EnumeratorFigures] = {}
        self._changed_since: float | None = None
        self._untellable: set[VertexId] = set()

    def later(self, vertex_id: VertexId, work: Callable[[], None]) -> None:
        """Queues work of one enumerator; from any thread."""
        self._work.put((vertex_id, work))

    def command(self, command: EnumeratorsCommand) -> None:
        """Queues a command of the job manager; from any thread."""
        match command:
            case StartEnumerators(job_id, sources):
                self._job_id = job_id
                for source in sources:
                    self._sources[source.vertex_id] = source
                    self.later(source.vertex_id, partial(self._start, source))
                self.later(_ALL, self._report_started)
            case ReaderEvent(_, vertex_id):
                self.later(vertex_id, partial(self._reader_event, command))
            case SnapshotEnumerators(checkpoint_id):
                self.later(_ALL, partial(self._snapshot, checkpoint_id))
            case CheckpointNotice():
                for vertex_id in self._sources:
                    self.later(vertex_id, partial(self._notify, vertex_id, command))
            case ResetSource(vertex_id):
                self.later(vertex_id, partial(self._reset, command))
            case Stop():
                self._work.put(None)
            case _:
                assert_never(command)

    def run(self) -> None:
        """Runs until it is stopped; an exception of an enumerator fails the job."""
        while (item := self._next()) is not None:
            vertex_id, work = item
            try:
                work()
            except BaseException as error:  # also SystemExit, from user code
                leave_if_forked(error)
                self._fail(vertex_id, error)
            leave_if_forked()
            if self._changed_since is None:
                self._changed_since = self._clock.monotonic()
        for vertex_id, (enumerator, context) in self._enumerators.items():
            context.end()
            try:
                enumerator.close()
            except BaseException as error:
                leave_if_forked(error)
                log.exception("closing the enumerator of %s failed", self._sources[vertex_id].name)
            leave_if_forked()

    def _next(self) -> tuple[VertexId, Callable[[], None]] | None:
        """Returns the next work, and reports figures that are due before it."""
        while True:
            left = None
            if self._changed_since is not None:
                left = self._changed_since + _REPORTED_AFTER - self._clock.monotonic()
                if left <= 0:
                    self._changed_since = left = None
                    self._report_figures()
            try:
                return self._work.get(timeout=left)
            except queue.Empty:
                continue

    def _report_figures(self) -> None:
        for vertex_id, (enumerator, context) in self._enumerators.items():
            figures = context.figures(self._unassigned(vertex_id, enumerator))
            if self._reported.get(vertex_id) != figures:
                self._reported[vertex_id] = figures
                self.send(figures)

    def _unassigned(self, vertex_id: VertexId, enumerator: SplitEnumerator[Any]) -> int | None:
        """Returns the number of unassigned splits; an exception is logged and does not fail the job."""
        if vertex_id in self._untellable:
            return None
        try:
            return enumerator.unassigned_splits()
        except BaseException as error:
            leave_if_forked(error)
            self._untellable.add(vertex_id)
            log.exception("Getting the number of unassigned splits of %s failed", self._sources[vertex_id].name)
            return None

    def _start(self, source: SourceToEnumerate) -> None:
        context = EnumeratorContext(self, self._job_id, source)
        loaded: Source[Any] = load_program(source.source, f"the source '{source.name}'")
        if source.state:
            enumerator = loaded.restore_enumerator(context, pickle.loads(source.state))
        else:
            enumerator = loaded.create_enumerator(context)
        self._enumerators[source.vertex_id] = (enumerator, context)
        enumerator.start()
        if source.readers:
            self._take_over(source, enumerator, context)
        self._started.add(source.vertex_id)

    def _take_over(
        self, source: SourceToEnumerate, enumerator: SplitEnumerator[Any], context: EnumeratorContext
    ) -> None:
        context.readers.update(reader.subtask for reader in source.readers)
        assigned: dict[int, list[Any]] = {
            reader.subtask: [split for pickled in reader.splits for split in pickle.loads(pickled)]
            for reader in source.readers
        }
        if not enumerator.take_over(assigned):
            self._refused = (
                f"the enumerator of {source.name} cannot continue with readers that were assigned splits since the "
                "last checkpoint: it has no method take_over"
            )

    def _report_started(self) -> None:
        """Reports that all enumerators have started; not if one failed, since the job restarts with a new process."""
        if self._started == self._sources.keys():
            self.send(TakeoverRefused(self._refused) if self._refused else Ready())

    def _reader_event(self, event: ReaderEvent) -> None:
        if event.vertex_id not in self._enumerators:
            return  # its start failed, which fails the job
        enumerator, context = self._enumerators[event.vertex_id]
        context.taken += 1
        match event.kind:
            case Registered():
                context.readers.add(event.subtask)
                enumerator.add_reader(event.subtask)
            case SplitsReturned(returned):
                context.readers.discard(event.subtask)
                if splits := pickle.loads(returned):
                    context.returned += len(splits)
                    enumerator.add_splits_back(splits, event.subtask)
                self.send(Ready())
            case SplitRequest() | Custom() if event.subtask not in context.readers:
                pass  # from a reader that no longer exists: its successor registers before it requests splits
            case SplitRequest(host):
                enumerator.handle_split_request(event.subtask, host)
            case Custom(custom):
                enumerator.handle_source_event(event.subtask, pickle.loads(custom))
            case _:
                assert_never(event.kind)

    def _snapshot(self, checkpoint_id: int) -> None:
        """Takes a snapshot of all enumerators at once; an exception fails the checkpoint, not the job."""
        states: dict[str, bytes] = {}
        message, failure = "", None
        for vertex_id, (enumerator, _) in self._enumerators.items():
            try:
                states[vertex_id] = to_bytes(enumerator.snapshot_state(checkpoint_id))
            except BaseException as error:
                leave_if_forked(error)
                failure = self._described(vertex_id, error)
                log.exception("the snapshot of the enumerator of %s failed", failure.operator_name)
                message = f"{failure.task_name}: {failure.exception}"
            leave_if_forked()
        self.send(EnumeratorsSnapshot(checkpoint_id, states, message, failure))

    def _notify(self, vertex_id: VertexId, notice: CheckpointNotice) -> None:
        enumerator, _ = self._enumerators.get(vertex_id, (None, None))
        if enumerator is not None and notice.completed:
            enumerator.notify_checkpoint_complete(notice.checkpoint_id)

    def _reset(self, command: ResetSource) -> None:
        """Replaces an enumerator by a new one that is restored from the state."""
        vertex_id, state, parallelism = command.vertex_id, command.state, command.parallelism
        enumerator, context = self._enumerators.pop(vertex_id, (None, None))
        if enumerator is not None and context is not None:
            context.end()
            enumerator.close()
        source = replace(self._sources[vertex_id], state=state, parallelism=parallelism, readers=())
        self._sources[vertex_id] = source
        self._start(source)
        self.send(Ready())

    def _fail(self, vertex_id: VertexId, error: BaseException) -> None:
        self.send(self._described(vertex_id, error))

    def _described(self, vertex_id: VertexId, error: BaseException) -> TaskFailure:
        name = self._sources[vertex_id].name if vertex_id in self._sources else ""
        return TaskFailure(
            job_id=self._job_id,
            vertex_id=vertex_id,
            task_name=f"{name} (split enumerator)",
            operator_name=name,
            exception=one_line(error),
            traceback=user_traceback(error),
            timestamp=self._clock.now_ms(),
            signature=error_signature(error),
            final=isinstance(error, UnrecoverableError | ImportError),
        )


def run_enumerators(pipe: ControlPipe, when_alone: Callable[[], None] | None = None) -> None:
    """Runs on this thread until it is stopped. If the job manager exits, calls `when_alone`, or stops."""
    enumerators = Enumerators(lambda message: pipe.send(ENUMERATORS_MESSAGE.to_bytes(message)), SystemClock())
    pipe.start(
        lambda raw: enumerators.command(ENUMERATORS_COMMAND.from_bytes(raw)),
        when_alone or (lambda: enumerators.command(Stop())),
    )
    enumerators.run()


def main() -> int:
    """Runs the enumerators in this process, which exits at once when the job manager has exited."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--job", default="")
    parser.add_argument("--job-name", default="")
    parser.add_argument("--logging", default="{}")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)  # a crash of native code prints the Python stack
    configuration = Configuration(json.loads(arguments.logging))
    bound_output(configuration, owner=False)
    of_job = Origin(arguments.job, arguments.job_name)
    set_title(f"enumerators of {of_job.text}", "millstream.jobmanager.sources.enumerators")
    set_up_logging("enumerators", configuration, lambda: of_job)
    run_enumerators(ControlPipe(socket.socket(fileno=arguments.control_fd)), end_with_parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
