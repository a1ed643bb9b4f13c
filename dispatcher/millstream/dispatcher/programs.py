"""Runs a wheel's entry point to build its job, in a process of its own in the job's own environment.

The dispatcher never loads user code. The process gets its orders in environment variables, and by descriptors what
others on this host must not see: the program's arguments, and options with credentials. It either leaves the id of its
job in a file and submits it to this dispatcher over gRPC, or leaves the graph of its first `execute()` there and stops.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.environments.environment_use import in_use
from millstream.core.environments.environments import Environment, EnvironmentCache
from millstream.core.errors import MillstreamError
from millstream.core.files.directories import work_directory
from millstream.core.jobs.graph import Artifact, ArtifactKind, JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.processes.child import child_variables
from millstream.core.processes.handed_down import handed_down, secret_options
from millstream.core.processes.session_end import end_of_session
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_ATTACHED, EXECUTION_TARGET
from millstream.core.settings.options.services import SECURITY_ALLOW_INSECURE
from millstream.core.settings.options.submission import WEB_SUBMIT_TIMEOUT
from millstream.core.settings.secrets import split_options
from millstream.core.settings.variables import (
    PARENT_FD,
    PLAN_FILE,
    PROGRAM_ARTIFACTS,
    PROGRAM_CONFIGURATION,
    SUBMITTED_FILE,
)
from millstream.core.wire.contracts import JOB_GRAPH
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.scratch import ScratchFolders
from millstream.dispatcher.uploads import UploadedWheel

log = logging.getLogger(__name__)
_OUTPUT_LIMIT = 64 * 1024
_INHERITED = (
    "parallelism.",
    "pipeline.",
    "execution.",
    "security.ssl.internal.",
    "security.cluster.",
    SECURITY_ALLOW_INSECURE,
)


class ProgramFailedError(MillstreamError):
    """The program did not build a job. `traceback` is the text of its own frames, when it raised."""

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.traceback = traceback


class ProgramCall(Struct, frozen=True):
    """What to run of a wheel, and how."""

    wheel: UploadedWheel
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


class SubmittedJobs(Struct, frozen=True):
    """What a program has submitted, one job at least, and what went wrong besides."""

    job_ids: tuple[str, ...]
    warnings: tuple[str, ...]


class ProgramRunner:
    """Runs programs of uploaded wheels. `is_known`: whether a job was accepted."""

    def __init__(
        self,
        configuration: Configuration,
        artifacts: ArtifactStore,
        environments: EnvironmentCache,
        address: str,
        is_known: Callable[[JobId], bool],
    ) -> None:
        self._configuration = configuration
        self._is_known = is_known
        self._address = address
        self._artifacts = artifacts
        self._environments = environments
        self._timeout = configuration.get(WEB_SUBMIT_TIMEOUT)
        self._scratch = ScratchFolders(work_directory(configuration, "programs"))
        self._scratch.remove_dead()

    async def run(self, call: ProgramCall) -> SubmittedJobs:
        """Has the program submit its job to this dispatcher.

        Once a job was submitted, whatever else goes wrong with the program is a warning: after an error, a client
        would try again, and run the job twice.
        """
        remote: dict[str, str] = {
            EXECUTION_TARGET: "remote",
            EXECUTION_ATTACHED: "false",
            **address_options(Role.DISPATCHER, self._address),
        }
        with self._scratch.folder() as folder:
            ids = folder / "submitted"
            failure: ProgramFailedError | None = None
            try:
                await self._execute(call, remote, {SUBMITTED_FILE: str(ids)}, folder)
            except ProgramFailedError as error:
                failure = error
            tried = _read(ids).decode().split()  # written before a job is submitted: none is missed
        job_ids = tuple(dict.fromkeys(job_id for job_id in tried if self._is_known(JobId(job_id))))
        if not job_ids:
            raise failure or ProgramFailedError(f"the program of {call.wheel.name} did not call execute()")
        warnings = []
        if len(job_ids) > 1:
            warnings.append(
                f"the program of {call.wheel.name} submitted {len(job_ids)} jobs where one is expected; all of them "
                f"run: {', '.join(job_ids)}"
            )
        if failure is not None:
            warnings.append(f"the program did not end well after it had submitted {', '.join(job_ids)}: {failure}")
            warnings += [failure.traceback] if failure.traceback else []
        for text in warnings:
            log.warning("%s", text)
        return SubmittedJobs(job_ids, tuple(warnings))

    async def plan(self, call: ProgramCall) -> JobGraph:
        """The graph of the program's first `execute()`, which is not run."""
        with self._scratch.folder() as folder:
            plan = folder / "plan"
            artifact = await self._execute(call, {}, {PLAN_FILE: str(plan)}, folder)
            content = _read(plan)
        if not content:
            raise ProgramFailedError(f"the program of {call.wheel.name} did not call execute()")
        graph = JOB_GRAPH.from_bytes(content)
        return graph if artifact in graph.artifacts else replace(graph, artifacts=(*graph.artifacts, artifact))

    async def _execute(
        self, call: ProgramCall, options: dict[str, str], variables: dict[str, str], folder: Path
    ) -> Artifact:
        wheel = call.wheel
        entry = wheel.info.entry(call.entry)
        inherited = {k: v for k, v in self._configuration.to_dict().items() if k.startswith(_INHERITED)}
        configuration = Configuration(inherited).merged(dict(call.options)).merged(options)
        artifact = await self._artifacts.adopt(wheel.path, wheel.name, ArtifactKind.WHEEL)
        environment = await self._environments.prepare([artifact], self._artifacts.copy, log.info)
        description = {"sha256": artifact.sha256, "name": artifact.name, "kind": artifact.kind.name}
        plain, secret = split_options(configuration.to_dict())
        with secret_options(secret) as (descriptors, credentials), handed_down(call.arguments) as (arguments, where):
            orders = {
                **variables,
                **credentials,
                PROGRAM_CONFIGURATION: json.dumps(plain),
                PROGRAM_ARTIFACTS: json.dumps([description]),
            }
            command = ["-P", "-m", "millstream.client.program", "--entry", entry, "--arguments", where]
            passed = (*descriptors, arguments)
            status, output = await self._run_process(environment, command, orders, passed, folder, wheel.name)
        if status != 0:
            raise _failure(wheel.name, status, output)
        return artifact

    async def _run_process(
        self,
        environment: Environment,
        command: Sequence[str],
        orders: dict[str, str],
        descriptors: Sequence[int],
        folder: Path,
        name: str,
    ) -> tuple[int, str]:
        errors = folder / "stderr"
        theirs, ours = os.pipe()  # however this process ends, the program reads the end of it and ends as well
        try:
            with await asyncio.to_thread(errors.open, "wb") as sink, in_use(environment.lock) as held:
                process = subprocess.Popen(  # noqa: ASYNC220  # asyncio does the same, and waits its own way
                    [environment.python, *command],
                    cwd=environment.working_directory or folder,
                    env=child_variables(environment, variables={**orders, PARENT_FD: str(theirs)}),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=sink,
                    pass_fds=(theirs, *held, *descriptors),
                    start_new_session=True,
                )
            status = await self._wait(process, name)
        except OSError as error:  # as when the wheel has brought a `python` of its own
            reason = f"cannot run {error.filename or environment.python}: {error.strerror}"
            raise ProgramFailedError(f"the program of {name} did not start: {reason}") from error
        finally:
            os.close(theirs)
            os.close(ours)
        return status, _read(errors)[-_OUTPUT_LIMIT:].decode(errors="replace")

    async def _wait(self, process: subprocess.Popen[bytes], name: str) -> int:
        """The program's exit status. What it has started ends with it."""
        try:
            async with asyncio.timeout(self._timeout):
                return await end_of_session(process)
        except TimeoutError:
            raise ProgramFailedError(
                f"the program of {name} did not end within {self._timeout:g} s (web.submit.timeout)"
            ) from None


def _failure(name: str, status: int, output: str) -> ProgramFailedError:
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("warning: ")]
    if status < 0:
        return ProgramFailedError(f"the program of {name} was ended by signal {-status}", output.strip())
    if not lines:
        return ProgramFailedError(f"the program of {name} ended with status {status} and no message")
    return ProgramFailedError(lines[-1].strip(), output.strip() if len(lines) > 1 else "")


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
