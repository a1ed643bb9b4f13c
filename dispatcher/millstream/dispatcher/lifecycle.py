"""The asyncio shell around the table of jobs: sessions of job managers, what each job was last reported as, watchers.

It starts empty in each term in which the dispatcher leads: what earlier terms left is read from the store first. In
between, the dispatcher stands by, and raises `StandbyError`.

Owned by one asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, JobManagerId, LeaderEpoch, new_id
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.logs import REPORTED
from millstream.core.logs.printable import printable
from millstream.core.logs.repeats import is_told_at
from millstream.core.messages import dispatcher as msg
from millstream.core.messages.queries import JobQuery, JobQueryResult
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.handshake import epoch_of_start
from millstream.core.services.session import Session
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HEARTBEAT_TIMEOUT
from millstream.core.settings.options.submission import JOBSTORE_MAX_CAPACITY
from millstream.core.store.job_graphs import StoredGraph
from millstream.core.store.store import StoreError
from millstream.dispatcher import jobs
from millstream.dispatcher.details import ended_details, submitted_details
from millstream.dispatcher.durable_jobs import DurableJobs, LeftJob
from millstream.dispatcher.jobs import Claim, JobTable, SessionId
from millstream.dispatcher.relayed import Relayed, SessionEndedError
from millstream.dispatcher.snapshot_folders import TakenSnapshots

log = logging.getLogger(__name__)
RESPONSE_TIMEOUT = 30.0
_STOPPING = "the dispatcher is stopping"
_NEXT_LEADER = 300.0
"""Seconds within which another job manager has to lead a job that is being rescaled."""
_LOOK_AGAIN = 0.2
_LATER = "try again"
"""In the error of a job manager that cannot do something now, but later."""


ManagerSession = Session[msg.DispatcherMessage, msg.JobManagerMessage]


class UnknownJobError(MillstreamError):
    """No job of this id is known, or no longer."""

    def __init__(self, job_id: JobId) -> None:
        super().__init__(f"job {job_id} could not be found")


class StandbyError(MillstreamError):
    """Another dispatcher leads, or none."""

    def __init__(self) -> None:
        super().__init__("this dispatcher does not lead the cluster now")


class _JobManagerLostError(UnreachableError):
    """The session ended while a response was due."""


class JobEndedError(MillstreamError):
    """The request cannot be carried out, since the job has ended."""


class _Record(Struct):
    details: JobDetails
    changed_ms: int
    graph: StoredGraph | None = None  # until a job manager has taken the job: it may hold whole collections
    watchers: set[asyncio.Queue[JobDetails | None]] = field(default_factory=set)


def _is_of_a_loop(details: JobDetails) -> bool:
    """Whether a job that restarts again and again has got to one of the restarts that are only counted."""
    return details.state in (JobStatus.RESTARTING, JobStatus.RUNNING) and not is_told_at(details.restarts)


class JobLifecycle:
    """Submits, cancels, shows and watches jobs, and keeps the sessions of job managers."""

    def __init__(self, configuration: Configuration, clock: Clock, background: BackgroundTasks) -> None:
        self._clock = clock
        self._background = background
        self._grace = configuration.get(HEARTBEAT_TIMEOUT)
        self._capacity = configuration.get(JOBSTORE_MAX_CAPACITY)
        self._session_ids = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.epoch = epoch_of_start(clock)
        """Under which the dispatcher leads."""
        self._durable: DurableJobs | None = None
        self._begin(recovers=False)

    def _begin(self, recovers: bool) -> None:
        self._table = JobTable(self._grace, self._capacity, recovers)
        self._records: dict[JobId, _Record] = {}
        self._sessions: dict[SessionId, ManagerSession] = {}
        self._managers: dict[SessionId, msg.RegisterJobManager] = {}
        self._relayed = Relayed()
        self.taken = TakenSnapshots()
        """Those that clients requested, and that were taken."""
        self._changed = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether jobs are taken, and shown."""
        return self._durable is not None

    async def lead(self, epoch: LeaderEpoch, durable: DurableJobs) -> None:
        """The dispatcher leads, and may write to the store: returns once the jobs of earlier terms are known."""
        found = await durable.left() if durable.recovers else []
        self._begin(durable.recovers)
        if durable.recovers:
            self.epoch = epoch
        self._durable = durable
        for job in found:
            self._take_up(job)

    def _take_up(self, job: LeftJob) -> None:
        now = self._clock.now_ms()
        if job.result is not None:
            record = self._records[job.job_id] = _Record(job.result, job.result.end_time, job.graph)
            self._clean_up(record)
            self._handle(jobs.FoundEnded(job.job_id, job.result.state))  # by which it may be remembered no longer
        elif job.graph is not None:
            details = replace(submitted_details(job.graph.graph, now), message="looking for its job manager")
            self._records[job.job_id] = _Record(details, now, job.graph)
            log.info("recovered job %s (%s), submitted to an earlier dispatcher", job.job_id, printable(details.name))
            self._handle(jobs.Recovered(job.job_id, job.graph.cancelled))

    def step_down(self) -> None:
        """The term is over: clients and job managers have to find the next leader."""
        sessions, records = list(self._sessions.values()), list(self._records.values())
        for session_id in self._sessions:
            self._relayed.session_ended(session_id, "the dispatcher does not lead any more")
        self._durable = None
        self._begin(recovers=True)
        self._set_timer()
        for session in sessions:
            session.close("this dispatcher leads no more")
        for record in records:
            for watcher in record.watchers:
                watcher.put_nowait(None)

    def _leading(self) -> DurableJobs:
        if self._durable is None:
            raise StandbyError
        return self._durable

    async def submit(self, graph: JobGraph) -> None:
        """Takes a valid job under an id that is not in use; returns when it cannot be lost any more."""
        durable = self._leading()
        try:
            stored = await durable.add(graph)
        except StoreError as error:
            raise StandbyError from error
        if self._durable is not durable:  # the next term's leader has read it from the store, or will
            raise StandbyError
        now = self._clock.now_ms()
        self._records[graph.job_id] = _Record(submitted_details(graph, now), now, stored)
        log.info("accepted job %s (%s)", graph.job_id, printable(graph.name))
        self._handle(jobs.Submitted(graph.job_id))

    async def cancel(self, job_id: JobId) -> None:
        """Cancels the job, for good. Raises when it is unknown, or has ended otherwise."""
        status = self.details(job_id).state
        if status.is_terminal and status is not JobStatus.CANCELED:
            raise JobEndedError(f"job {job_id} cannot be cancelled: it is already {status}")
        try:
            await self._leading().cancel(job_id)
        except StoreError as error:
            raise StandbyError from error
        self._handle(jobs.CancelRequested(job_id))

    def lacks(self) -> str:
        """What keeps jobs from being started; empty when nothing does."""
        if not self.leads:
            return "the dispatcher does not lead"
        return "" if self._sessions else "no job manager is registered"

    def knows(self, job_id: JobId) -> bool:
        """Whether the id is in use."""
        self._leading()
        return job_id in self._records

    def details(self, job_id: JobId) -> JobDetails:
        """What is known about a job."""
        return self._record(job_id).details

    def changed_ms(self, job_id: JobId) -> int:
        """When the job's state or message last changed."""
        return self._record(job_id).changed_ms

    def all(self) -> list[JobDetails]:
        """All jobs, in the order of their submission."""
        self._leading()
        return [record.details for record in self._records.values()]

    def managers(self) -> dict[JobManagerId, tuple[str, list[JobId]]]:
        """The job managers that are registered now: where each is reached, and which jobs it has."""
        self._leading()
        jobs_of: dict[SessionId | None, list[JobId]] = {}
        for job_id in self._records:
            jobs_of.setdefault(self._table.session_of(job_id), []).append(job_id)
        return {
            manager.job_manager_id: (manager.address, jobs_of.get(session, []))
            for session, manager in self._managers.items()
        }

    @property
    def job_managers(self) -> list[str]:
        """Where those are reached that are connected now."""
        return [manager.address for manager in self._managers.values()]

    def artifacts_in_use(self) -> set[str]:
        """The sha256 of every artifact that a job which has not ended may still need."""
        known = [record.details for record in self._records.values()]
        return {sha256 for details in known if not details.state.is_terminal for sha256 in details.artifacts}

    async def watch(self, job_id: JobId) -> AsyncGenerator[JobDetails, None]:
        """The job's details now and after each change of its state, message, restarts or failure, up to its end."""
        record = self._record(job_id)
        updates: asyncio.Queue[JobDetails | None] = asyncio.Queue()
        updates.put_nowait(record.details)
        record.watchers.add(updates)
        try:
            while True:
                details = await updates.get()
                if details is None:
                    raise StandbyError
                yield details
                if details.state.is_terminal:
                    return
        finally:
            record.watchers.discard(updates)

    async def collect(self, request: CollectRequest) -> CollectResponse:
        """Forwards a request for results to the job manager. The response has the error, if there is one."""
        details = self.details(request.job_id)
        session_id = self._table.session_of(request.job_id)
        if session_id is None:  # not waited for: the client requests again
            return CollectResponse(error=f"no job manager runs job {request.job_id}, it is {details.state}")
        relayed = replace(request, request_id=new_id())
        send = partial(self._send, session_id, relayed)
        try:
            response = await self._relayed.request(
                CollectResponse, session_id, relayed.request_id, send, RESPONSE_TIMEOUT
            )
        except TimeoutError:
            return CollectResponse(error=f"the job manager did not respond within {RESPONSE_TIMEOUT:g} s")
        except SessionEndedError as error:
            return CollectResponse(error=f"the job manager is disconnected: {error}")
        return replace(response, request_id=request.request_id)

    async def trigger_snapshot(self, request: SnapshotRequest) -> SnapshotResult:
        """Has a snapshot taken; returns when that is done or has failed. The result has the error.

        The same trigger id again is the same request: both return the one result.
        """
        record = self._record(request.job_id)
        wanted = replace(request, trigger_id=request.trigger_id or new_id())

        def failed(reason: str) -> SnapshotResult:
            return SnapshotResult(wanted.trigger_id, error=reason)

        try:
            session_id = await self._manager_of(request.job_id)
        except UnreachableError as error:
            return failed(str(error))
        send = partial(self._send, session_id, wanted)
        response = asyncio.ensure_future(
            self._relayed.request(SnapshotResult, session_id, wanted.trigger_id, send, None)
        )
        ended = asyncio.ensure_future(self._ended(request.job_id))
        try:
            await asyncio.wait((response, ended), return_when=asyncio.FIRST_COMPLETED)
            async with asyncio.timeout(RESPONSE_TIMEOUT):  # the end of a job may be known before the response
                return await response
        except TimeoutError:
            state = record.details.state
            return failed(f"job {request.job_id} is {state}, and its job manager sent no result of the snapshot")
        except SessionEndedError as error:
            return failed(f"the job manager is disconnected, and may have taken the snapshot or not: {error}")
        finally:
            response.cancel()
            ended.cancel()

    async def _ended(self, job_id: JobId) -> None:
        async with contextlib.aclosing(self.watch(job_id)) as updates:
            async for _ in updates:
                pass

    async def rescale(self, request: RescaleRequest) -> RescaleResult:
        """Runs a job at another parallelism; the result has the reason when that was not done or not accepted.

        Raises UnreachableError when no job manager responds. A request that waits for the end outlives its job manager:
        the next one is requested the same, which changes nothing where the job runs at this parallelism already.
        """
        wanted = replace(request, trigger_id=request.trigger_id or new_id())
        try:
            return await self._rescale(wanted)
        except _JobManagerLostError as error:
            if not wanted.wait:
                raise
            lost = str(error)
        log.warning("leaving the rescale of job %s to the next job manager: %s", request.job_id, lost)
        deadline = self._clock.monotonic() + _NEXT_LEADER
        while True:
            is_late = self._clock.monotonic() > deadline or self.details(request.job_id).state.is_terminal
            try:
                result = await self._rescale(wanted)
            except UnreachableError as error:
                if is_late:
                    raise UnreachableError(f"{lost}; after that: {error}") from error
                continue
            if not result.error:
                return replace(result, message=f"{result.message}; it has another job manager since")
            if is_late or _LATER not in result.error:
                return result
            await asyncio.sleep(_LOOK_AGAIN)
            wanted = replace(wanted, trigger_id=new_id())

    async def _rescale(self, wanted: RescaleRequest) -> RescaleResult:
        session_id = await self._manager_of(wanted.job_id)
        send = partial(self._send, session_id, wanted)
        try:
            return await self._relayed.request(
                RescaleResult, session_id, wanted.trigger_id, send, None if wanted.wait else RESPONSE_TIMEOUT
            )
        except TimeoutError:
            raise UnreachableError(f"the job manager did not respond within {RESPONSE_TIMEOUT:g} s") from None
        except SessionEndedError as error:
            why = f"the job manager is disconnected, and may rescale the job or not: {error}"
            raise _JobManagerLostError(why) from error

    async def query(self, query: JobQuery) -> JobQueryResult:
        """What the job manager of a job knows of it. Raises UnreachableError when none responds."""
        session_id = await self._manager_of(query.job_id)
        query = replace(query, request_id=new_id())
        send = partial(self._send, session_id, query)
        try:
            return await self._relayed.request(JobQueryResult, session_id, query.request_id, send, RESPONSE_TIMEOUT)
        except TimeoutError:
            raise UnreachableError(f"the job manager did not respond within {RESPONSE_TIMEOUT:g} s") from None
        except SessionEndedError as error:
            raise UnreachableError(f"the job manager is disconnected: {error}") from error

    async def _manager_of(self, job_id: JobId) -> SessionId:
        """The session of the job manager that runs the job: one that just starts, or is dialling again, is waited for.

        Raises UnreachableError when the job has ended, or there is none for too long.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                while not self.details(job_id).state.is_terminal:
                    session_id = self._table.session_of(job_id)
                    if session_id is not None:
                        return session_id
                    await self._changed.wait()
        raise UnreachableError(f"no job manager runs job {job_id}, it is {self.details(job_id).state}")

    def close(self) -> None:
        """Ends all sessions, and those that come; running jobs continue without the dispatcher."""
        self._closed = True
        self._set_timer()
        for session in list(self._sessions.values()):
            session.close(_STOPPING)

    def _record(self, job_id: JobId) -> _Record:
        self._leading()
        record = self._records.get(job_id)
        if record is None:
            raise UnknownJobError(job_id)
        return record

    # The job managers' side.

    def next_session_id(self) -> SessionId:
        """Greater than all before it."""
        return SessionId(next(self._session_ids))

    def connected(self, session: ManagerSession, session_id: SessionId) -> ManagerConnection:
        """A job manager opened a session."""
        return ManagerConnection(self, session, session_id)

    def register(self, connection: ManagerConnection, message: msg.RegisterJobManager) -> None:
        """A job manager registered with its name and the jobs that it runs."""
        if self._closed or not self.leads:  # it would be given a job, and the store is closed
            connection.session.close(_STOPPING if self._closed else str(StandbyError()))
            return
        others = [each for each, known in self._managers.items() if known.job_manager_id == message.job_manager_id]
        if any(each > connection.id for each in others):  # a later session has registered the same
            connection.session.close("the job manager has opened another session since")
            return
        for each in others:
            self._sessions[each].close("the job manager registered again")
        connection.manager = message.job_manager_id
        self._sessions[connection.id] = connection.session
        self._managers[connection.id] = replace(message, jobs=())
        log.info("registered job manager %s at %s with %d jobs", connection.manager, message.address, len(message.jobs))
        running = {details.job_id: Claim(details.state, details.epoch) for details in message.jobs}
        reports = {details.job_id: details for details in message.jobs}
        self._handle(jobs.ManagerRegistered(connection.manager, connection.id, running), reports)

    def reported(self, session: SessionId, details: JobDetails) -> None:
        """A job manager reported a job."""
        claim = Claim(details.state, details.epoch)
        self._handle(jobs.JobReported(session, details.job_id, claim), {details.job_id: details})

    def responded(self, message: CollectResponse | SnapshotResult | JobQueryResult | RescaleResult) -> None:
        """A job manager responded to a request."""
        match message:
            case SnapshotResult(trigger_id):
                if message.location and not message.error:
                    self.taken.add(message.location)
                self._relayed.complete(trigger_id, message)
            case RescaleResult(trigger_id):
                self._relayed.complete(trigger_id, message)
            case CollectResponse(request_id) | JobQueryResult(request_id):
                self._relayed.complete(request_id, message)
            case _:
                assert_never(message)

    def disconnected(self, connection: ManagerConnection, reason: str) -> None:
        """A session ended, whether it had registered or not."""
        if connection.manager is None or self._sessions.pop(connection.id, None) is None:
            return
        self._managers.pop(connection.id, None)
        log.warning("lost the connection to job manager %s: %s", connection.manager, reason)
        self._relayed.session_ended(connection.id, reason)
        self._handle(jobs.ManagerDisconnected(connection.manager, connection.id, reason))

    def _update(self, job_id: JobId, details: JobDetails) -> None:
        record = self._records[job_id]
        before, record.details = record.details, details
        if details.state.is_terminal:
            self._clean_up(record)
        if _shown(before) == _shown(details):
            return
        record.changed_ms = self._clock.now_ms()
        if before.state != details.state and not _is_of_a_loop(details):
            log.info("job %s (%s) is %s", job_id, printable(details.name), details.state)
        for watcher in record.watchers:
            watcher.put_nowait(details)

    def _handle(self, event: jobs.Event, reports: Mapping[JobId, JobDetails] | None = None) -> None:
        for effect in self._table.handle(event, self._clock.monotonic()):
            match effect:
                case jobs.RecordReport(job_id):
                    details = (reports or {})[job_id]
                    record = self._records.setdefault(job_id, _Record(details, self._clock.now_ms()))
                    if record.graph is not None and self._durable is not None and self._durable.taken(record.graph):
                        record.graph = None
                    self._update(job_id, details)
                case jobs.StartJob(session, job_id):
                    self._start(session, job_id)
                case jobs.CancelJob(session, job_id):
                    self._send(session, msg.CancelJob(job_id))
                case jobs.AbandonJob(session, job_id, epoch):
                    what = f"belongs to epoch {epoch}" if epoch else "has ended"
                    log.warning("abandoning job %s on the job manager that still runs it: the job %s", job_id, what)
                    reason = "the dispatcher had reported the job as ended, while this job manager was away"
                    self._send(session, msg.AbandonJob(job_id, reason, epoch))
                case jobs.RecallJob(job_id, withdrawn):
                    if self._durable is not None:
                        self._durable.recall(job_id, withdrawn)
                    if not withdrawn:
                        log.warning("recalling job %s: its job manager sends no reports", job_id)
                        message = "no connection to its job manager, which has to leave the job to another one"
                        self._update(job_id, replace(self._records[job_id].details, message=message))
                case jobs.WatchLeader(job_id):
                    self._background.spawn(self._watch_leader(job_id))
                case jobs.ForgetJob(session, job_id):
                    self._send(session, msg.ForgetJob(job_id))
                case jobs.EndJob(job_id, status, reason):
                    log.warning("ending job %s as %s: %s", job_id, status, reason)
                    before = self._records[job_id].details
                    details = ended_details(before, status, reason, self._clock.now_ms())
                    if status is JobStatus.FAILED:
                        log.error("job %s: %s", job_id, details.failures[0].exception, extra=REPORTED)
                    self._update(job_id, details)
                case jobs.JobOutOfTouch() if self._closed:  # it is this one that goes
                    pass
                case jobs.JobOutOfTouch(job_id, grace):
                    then = "another one takes it when that leads it no more"
                    if grace is not None:
                        then = f"it fails unless that is back within {grace:g} s"
                    message = f"no connection to its job manager; {then}"
                    self._update(job_id, replace(self._records[job_id].details, message=message))
                case jobs.DropJob(job_id):
                    del self._records[job_id]
                    if self._durable is not None:
                        self._durable.forget(job_id)
                case _:
                    assert_never(effect)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._set_timer()

    def _start(self, session: SessionId, job_id: JobId) -> None:
        record = self._records[job_id]
        assert record.graph is not None, f"job {job_id} was not submitted here"
        self._update(job_id, replace(record.details, message="starting"))
        self._send(session, msg.StartJob(record.graph.graph))

    def _clean_up(self, record: _Record) -> None:
        """The job has ended."""
        if self._durable is not None and not self._closed:
            self._durable.ended(record.details, record.graph, self._have_cleaned)
            record.graph = None

    def _have_cleaned(self, graph: JobGraph) -> None:
        """A job manager that starts a job which has ended finds that out, and deletes what is left of it."""
        for session in list(self._sessions)[:1]:
            self._send(session, msg.StartJob(graph))

    async def _watch_leader(self, job_id: JobId) -> None:
        durable = self._durable
        if durable is not None:
            await durable.leader_lost(job_id)
            if self._durable is durable and not self._closed:
                self._handle(jobs.LeaderLost(job_id))

    def _send(self, session: SessionId, message: msg.DispatcherMessage) -> None:
        if session in self._sessions:
            self._sessions[session].send(message)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._table.next_deadline()
        if deadline is not None and not self._closed:
            delay = max(deadline - self._clock.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._handle, jobs.TimePassed())


def _shown(details: JobDetails) -> tuple[object, ...]:
    """What watchers are notified of when it changes."""
    newest = [(failure.timestamp, failure.exception, failure.restart) for failure in details.failures[:1]]
    return details.state, details.message, details.restarts, newest


class ManagerConnection:
    """One session of a job manager, from its start to its end. Its first message must be the registration."""

    def __init__(self, lifecycle: JobLifecycle, session: ManagerSession, session_id: SessionId) -> None:
        self.id = session_id
        self.session = session
        self.manager: JobManagerId | None = None
        self._lifecycle = lifecycle

    def on_message(self, message: msg.JobManagerMessage) -> None:
        """Handles one message."""
        match message:
            case msg.RegisterJobManager():
                self._lifecycle.register(self, message)
            case _ if self.manager is None:
                self.session.refuse(f"{self.session.peer} sent {type(message).__name__} before it registered")
            case JobDetails():
                self._lifecycle.reported(self.id, message)
            case _:
                self._lifecycle.responded(message)

    def ended(self, reason: str) -> None:
        """Called once, at the end of the session."""
        self._lifecycle.disconnected(self, reason)
