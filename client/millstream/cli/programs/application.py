"""An application: a program, its jobs, and a dispatcher, a resource manager and a job manager of its own.

The services run in this process, the program as a child beside them, as user code never runs in a service. When the
program has ended and all that it submitted, the application has: FAILED when a job failed or the program did, FINISHED
when all ended in order, and CANCELED, which is no failure, when a job was cancelled. Its services end with it. Task
managers register with them as with any other. Owned by one asyncio loop.

With high availability there may be several processes for one application. The program runs where the dispatcher leads;
its only job has an id that all of them know, so that a program that is run again finds the job that it left, also when
that has ended: a process that comes too late ends as the one before has, and runs nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc

from millstream.cli.programs.program_process import running_program, submit_artifacts
from millstream.cli.programs.program_source import ProgramSource
from millstream.client.control_plane import ControlPlane
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId, stable_id
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.dispatcher import JobList, JobRequest
from millstream.core.messages.session import Empty
from millstream.core.processes.daemon import ServiceDismissed
from millstream.core.processes.session_end import end_of_session
from millstream.core.services.rpc import Stub, channel_for_calls, explain
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_TARGET
from millstream.core.settings.options.services import HA_CLUSTER_ID
from millstream.core.settings.variables import JOB_ID
from millstream.core.store.high_availability import is_highly_available
from millstream.core.wire.contracts import DISPATCHER

log = logging.getLogger(__name__)
_LOOK_AGAIN = 0.1
_RAISED = 1
"""The exit status of a program that ended with an exception, as `execute()` raises for a job that was cancelled."""


class Application:
    """Satisfies `millstream.core.processes.daemon.Service`: it fails, with its exit status, when it is over."""

    def __init__(self, source: ProgramSource, configuration: Configuration, job_id: JobId | None) -> None:
        self.address = ""
        self._source = source
        self._job_id = job_id or _id_of_application(configuration)
        self._services = ControlPlane(configuration, takes_programs=False)
        self._running: asyncio.Task[MillstreamError] | None = None

    async def start(self) -> None:
        """Starts the services, then the program."""
        await self._services.start()
        self.address = self._services.address
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends the program and the services; jobs are not cancelled, as a new process may continue with them."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._services.stop()

    async def lacks(self) -> str:
        """What its services lack, each with its name."""
        return await self._services.lacks()

    async def failure(self) -> MillstreamError:
        """Returns when the application is over, or a service cannot continue."""
        assert self._running is not None, "start comes first"
        broken = asyncio.ensure_future(self._services.failure())
        try:
            await asyncio.wait((self._running, broken), return_when=asyncio.FIRST_COMPLETED)
            return self._running.result() if self._running.done() else broken.result()
        finally:
            broken.cancel()

    async def _run(self) -> MillstreamError:
        """Returns at the end of the application. With high availability, another process may lead it until then."""
        while True:
            await self._until(leading=True)
            program = asyncio.ensure_future(self._to_its_end())
            deposed = asyncio.ensure_future(self._until(leading=False))
            try:
                await asyncio.wait((program, deposed), return_when=asyncio.FIRST_COMPLETED)
                if program.done():
                    return program.result()
            except MillstreamError as error:
                if self._services.leads:
                    return error
            except grpc.RpcError as error:
                if self._services.leads:
                    return MillstreamError(f"how the jobs of the application ended is not known: {explain(error)}")
            finally:
                for task in (program, deposed):
                    task.cancel()
                await asyncio.gather(program, deposed, return_exceptions=True)
            log.warning("ending the program: another process leads the application")

    async def _until(self, leading: bool) -> None:
        while self._services.leads is not leading:  # noqa: ASYNC110  # it changes with the store, at any time
            await asyncio.sleep(_LOOK_AGAIN)

    async def _to_its_end(self) -> ServiceDismissed:
        status = await self._run_program()
        async with channel_for_calls(self.address, self._services.found) as channel:
            stub = Stub(channel, DISPATCHER)
            submitted: JobList = await stub.list_jobs(Empty())
            if status == 0:
                states = [(await _end_of(stub, job)).state for job in submitted.jobs]
            else:
                states = [job.state for job in submitted.jobs]
                await _cancel(stub, submitted.jobs)
        return outcome(status, states)

    async def _run_program(self) -> int:
        """Runs the program in a process of its own. Returns its exit status."""
        configuration = self._services.found.merged({EXECUTION_TARGET: "remote"})
        environment, artifacts = await submit_artifacts(self._source, configuration, log.info)
        more = {JOB_ID: self._job_id} if self._job_id is not None else {}
        with running_program(environment, self._source, configuration, artifacts, more) as process:
            return await end_of_session(process)


def _id_of_application(configuration: Configuration) -> JobId | None:
    """With high availability, the process that runs the program next has to find the job that the one before left."""
    if not is_highly_available(configuration):
        return None
    return JobId(stable_id("application", configuration.get(HA_CLUSTER_ID)))


async def _cancel(stub: Stub, jobs: Sequence[JobDetails]) -> None:
    """Ends the jobs of a program that failed: no process is left that decides about them."""
    left = [job for job in jobs if not job.state.is_terminal]
    for job in left:
        log.warning("cancelling job %s: the program that submitted it has failed", job.job_id)
        await stub.cancel_job(JobRequest(job.job_id))
    for job in left:
        await _end_of(stub, job)


async def _end_of(stub: Stub, job: JobDetails) -> JobDetails:
    while not job.state.is_terminal:
        async for details in stub.watch_job(JobRequest(job.job_id)):
            job = details
    return job


def outcome(status: int, jobs: Sequence[JobStatus]) -> ServiceDismissed:
    """How an application ends whose program ended with this status, with its jobs as they were then."""
    if JobStatus.CANCELED in jobs and JobStatus.FAILED not in jobs and status in (0, _RAISED):
        return ServiceDismissed("the application was CANCELED: a job of it was")
    if status != 0:
        shown = status if status > 0 else 128 - status
        return ServiceDismissed(f"the application has FAILED: its program ended with status {shown}", shown)
    if JobStatus.FAILED in jobs:
        return ServiceDismissed("the application has FAILED: a job of it has", _RAISED)
    return ServiceDismissed("the application has FINISHED")
