"""The main of a job's enumerator process: `python -m millstream.jobmanager.sources.enumerators --control-fd N`.

It runs the split enumerators of the job's sources, in the job's own environment and on one thread, and exchanges events
with their readers through the job manager. Nothing of the user's runs in the job manager itself.

When another job manager led the job before, and its tasks run on, enumerators are told what their readers were given
since the states that they start from. One that cannot continue with that refuses: all of the job starts again then.

The answer to a snapshot leaves on the same pipe as assignments of splits, after all that were made before it. A reset
and a return of splits are confirmed with `ready`: what was sent before that belongs to readers that are gone.

What enumerators have done is told a second after it began to change, and not while nothing does: these are the metrics
of the sources' coordinators.
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
_ALL = VertexId("")  # whose work is no single source's
_TOLD_AFTER = 1.0  # seconds


class EnumeratorContext(SplitEnumeratorContext[Any]):
    """One enumerator's way out."""

    def __init__(self, enumerators: Enumerators, job_id: JobId, source: SourceToEnumerate) -> None:
        self._enumerators = enumerators
        self._job_id = job_id
        self._vertex_id = source.vertex_id
        self._parallelism = source.parallelism
        self.readers: set[int] = set()
        self.assigned = self.returned = self.taken = self.sent = 0
        self._over = threading.Event()

    def current_parallelism(self) -> int:
        """The number of readers."""
        return self._parallelism

    def registered_readers(self) -> set[int]:
        """The subtasks whose readers have started."""
        return set(self.readers)

    def assign_splits(self, splits: list[Any], subtask: int) -> None:
        """Gives splits to a reader."""
        self._send(subtask, Splits(to_bytes(splits)))
        self.assigned += len(splits)

    def signal_no_more_splits(self, subtask: int) -> None:
        """Tells a reader that it has all its splits."""
        self._send(subtask, NoMoreSplits())

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        """Sends anything picklable to a reader."""
        self._send(subtask, Custom(to_bytes(event)))

    def end(self) -> None:
        """The enumerator is no more: nothing goes out, and work that was put off is not begun."""
        self._over.set()

    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        """Runs blocking work on another thread, and its continuation on the enumerators'."""

        def run() -> None:
            if delay and self._over.wait(delay):
                return
            try:
                result, error = work(), None
            except BaseException as raised:  # whatever it is, the enumerator waits for an answer
                result, error = None, raised
            self._enumerators.later(self._vertex_id, lambda: None if self._over.is_set() else then(result, error))

        threading.Thread(target=run, daemon=True).start()

    def _send(self, subtask: int, kind: Splits | NoMoreSplits | Custom) -> None:
        if self._over.is_set():
            return  # an enumerator that was reset has no readers any more
        if subtask not in self.readers:
            raise ConnectorError(
                f"there is no reader {subtask}: splits and events reach only those that have registered, of "
                f"{self._parallelism} now {sorted(self.readers)}; see registered_readers() and add_reader()"
            )
        self._enumerators.send(EnumeratorEvent(self._job_id, self._vertex_id, subtask, kind))
        self.sent += 1

    def figures(self, unassigned: int | None) -> EnumeratorFigures:
        """What it has done so far."""
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
        self._told: dict[VertexId, EnumeratorFigures] = {}
        self._untold_since: float | None = None
        self._untellable: set[VertexId] = set()

    def later(self, vertex_id: VertexId, work: Callable[[], None]) -> None:
        """Queues work of one enumerator; from any thread."""
        self._work.put((vertex_id, work))

    def command(self, command: EnumeratorsCommand) -> None:
        """Queues what the job manager wants; from any thread."""
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
        """Works until told to stop; what an enumerator raises fails the job."""
        while (item := self._next()) is not None:
            vertex_id, work = item
            try:
                work()
            except BaseException as error:  # also SystemExit: of the user's
                leave_if_forked(error)
                self._fail(vertex_id, error)
            leave_if_forked()
            if self._untold_since is None:
                self._untold_since = self._clock.monotonic()
        for vertex_id, (enumerator, context) in self._enumerators.items():
            context.end()
            try:
                enumerator.close()
            except BaseException as error:
                leave_if_forked(error)
                log.exception("closing the enumerator of %s failed", self._sources[vertex_id].name)
            leave_if_forked()

    def _next(self) -> tuple[VertexId, Callable[[], None]] | None:
        """The next work, and before it, or meanwhile, what is to be told."""
        while True:
            left = None
            if self._untold_since is not None:
                left = self._untold_since + _TOLD_AFTER - self._clock.monotonic()
                if left <= 0:
                    self._untold_since = left = None
                    self._tell()
            try:
                return self._work.get(timeout=left)
            except queue.Empty:
                continue

    def _tell(self) -> None:
        for vertex_id, (enumerator, context) in self._enumerators.items():
            figures = context.figures(self._unassigned(vertex_id, enumerator))
            if self._told.get(vertex_id) != figures:
                self._told[vertex_id] = figures
                self.send(figures)

    def _unassigned(self, vertex_id: VertexId, enumerator: SplitEnumerator[Any]) -> int | None:
        """A metric that cannot be had fails no job."""
        if vertex_id in self._untellable:
            return None
        try:
            return enumerator.unassigned_splits()
        except BaseException as error:
            leave_if_forked(error)
            self._untellable.add(vertex_id)
            log.exception("%s does not tell its unassigned splits", self._sources[vertex_id].name)
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
                f"the enumerator of {source.name} cannot continue with readers that were given splits since the last "
                "checkpoint: it has no method take_over that could"
            )

    def _report_started(self) -> None:
        """Not when one could not be started: the job restarts with another enumerator process, and waits for that."""
        if self._started == self._sources.keys():
            self.send(TakeoverRefused(self._refused) if self._refused else Ready())

    def _reader_event(self, event: ReaderEvent) -> None:
        if event.vertex_id not in self._enumerators:
            return  # its start failed, and so does the job
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
                pass  # of a reader that is gone: the one in its place registers before it asks
            case SplitRequest(host):
                enumerator.handle_split_request(event.subtask, host)
            case Custom(custom):
                enumerator.handle_source_event(event.subtask, pickle.loads(custom))
            case _:
                assert_never(event.kind)

    def _snapshot(self, checkpoint_id: int) -> None:
        """All enumerators at one moment; what cannot be captured fails the checkpoint, not the job."""
        states: dict[str, bytes] = {}
        told, failure = "", None
        for vertex_id, (enumerator, _) in self._enumerators.items():
            try:
                states[vertex_id] = to_bytes(enumerator.snapshot_state(checkpoint_id))
            except BaseException as error:
                leave_if_forked(error)
                failure = self._described(vertex_id, error)
                log.exception("the enumerator of %s could not be captured", failure.operator_name)
                told = f"{failure.task_name}: {failure.exception}"
            leave_if_forked()
        self.send(EnumeratorsSnapshot(checkpoint_id, states, told, failure))

    def _notify(self, vertex_id: VertexId, notice: CheckpointNotice) -> None:
        enumerator, _ = self._enumerators.get(vertex_id, (None, None))
        notify = getattr(enumerator, "notify_checkpoint_complete", None)
        if notify is not None and notice.completed:
            notify(notice.checkpoint_id)

    def _reset(self, command: ResetSource) -> None:
        """A new enumerator from the state, in place of the one that is there."""
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
    """Works on this thread until told to stop. When the job manager is gone it does `when_alone`, or else stops."""
    enumerators = Enumerators(lambda message: pipe.send(ENUMERATORS_MESSAGE.to_bytes(message)), SystemClock())
    pipe.start(
        lambda raw: enumerators.command(ENUMERATORS_COMMAND.from_bytes(raw)),
        when_alone or (lambda: enumerators.command(Stop())),
    )
    enumerators.run()


def main() -> int:
    """A process of its own, which ends at once when the job manager is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--job", default="")
    parser.add_argument("--job-name", default="")
    parser.add_argument("--logging", default="{}")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)  # a crash of native code tells where in Python it was
    configuration = Configuration(json.loads(arguments.logging))
    bound_output(configuration, owner=False)
    of_job = Origin(arguments.job, arguments.job_name)
    set_title(f"enumerators of {of_job.text}", "millstream.jobmanager.sources.enumerators")
    set_up_logging("enumerators", configuration, lambda: of_job)
    run_enumerators(ControlPipe(socket.socket(fileno=arguments.control_fd)), end_with_parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
