"""Runs a wheel's entry point to build its job, in a process of its own in the job's own environment.

The dispatcher never loads user code. The process gets its orders in environment variables, and by descriptors what
others on this host must not see: the program's arguments, and options with credentials. It either submits its job to
this dispatcher over gRPC and leaves the id in a file, or leaves the graph of its first `execute()` there and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from millstream.core.child import child_variables
from millstream.core.configuration import Configuration
from millstream.core.environment_use import in_use
from millstream.core.environments import Environment, EnvironmentCache
from millstream.core.errors import MillstreamError
from millstream.core.graph import Artifact, ArtifactKind, JobGraph
from millstream.core.handed_down import handed_down, secret_options
from millstream.core.secrets import split_options
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.uploads import UploadedWheel
from millstream.proto import graph_pb2

log = logging.getLogger(__name__)
_OUTPUT_LIMIT = 64 * 1024
_INHERITED = ("parallelism.", "pipeline.", "execution.", "security.ssl.internal.", "security.allow-insecure")


class ProgramFailedError(MillstreamError):
    """The program did not build a job. `traceback` is the text of its own frames, when it raised."""

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """What to run of a wheel, and how."""

    wheel: UploadedWheel
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


class ProgramRunner:
    """Runs programs of uploaded wheels."""

    def __init__(
        self, configuration: Configuration, artifacts: ArtifactStore, environments: EnvironmentCache, address: str
    ) -> None:
        self._configuration = configuration
        self._address = address
        self._artifacts = artifacts
        self._environments = environments
        self._timeout = configuration.seconds("web.submit.timeout")

    async def run(self, call: ProgramCall) -> str:
        """Has the program submit its job to this dispatcher; answers the job's id."""
        host, _, port = self._address.rpartition(":")
        remote = {
            "execution.target": "remote",
            "execution.attached": "false",
            "dispatcher.rpc.address": host,
            "dispatcher.rpc.port": port,
        }
        with tempfile.TemporaryDirectory(prefix="millstream-run-") as folder:
            answer = Path(folder, "submitted")
            await self._execute(call, remote, {"MILLSTREAM_SUBMITTED_FILE": str(answer)}, Path(folder))
            job_ids = _read(answer).decode().split()
        if not job_ids:
            raise ProgramFailedError(f"the program of {call.wheel.name} did not call execute()")
        if len(job_ids) > 1:
            raise ProgramFailedError(
                f"the program of {call.wheel.name} submitted {len(job_ids)} jobs ({', '.join(job_ids)}) where one is"
                " expected: they are running; cancel those that should not"
            )
        return job_ids[0]

    async def plan(self, call: ProgramCall) -> JobGraph:
        """The graph of the program's first `execute()`, which is not run."""
        with tempfile.TemporaryDirectory(prefix="millstream-plan-") as folder:
            answer = Path(folder, "plan")
            artifact = await self._execute(call, {}, {"MILLSTREAM_PLAN_FILE": str(answer)}, Path(folder))
            content = _read(answer)
        if not content:
            raise ProgramFailedError(f"the program of {call.wheel.name} did not call execute()")
        graph = JobGraph.from_proto(graph_pb2.JobGraph.FromString(content))
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
        with secret_options(secret) as (descriptors, told), handed_down(call.arguments) as (arguments, where):
            orders = {
                **variables,
                **told,
                "MILLSTREAM_PROGRAM_CONFIGURATION": json.dumps(plain),
                "MILLSTREAM_PROGRAM_ARTIFACTS": json.dumps([description]),
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
                process = await asyncio.create_subprocess_exec(
                    environment.python,
                    *command,
                    cwd=environment.working_directory or folder,
                    env=child_variables(environment, variables={**orders, "MILLSTREAM_PARENT_FD": str(theirs)}),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=sink,
                    pass_fds=(theirs, *held, *descriptors),
                    start_new_session=True,
                )
            await self._wait(process, name)
        finally:
            os.close(theirs)
            os.close(ours)
        return process.returncode or 0, _read(errors)[-_OUTPUT_LIMIT:].decode(errors="replace")

    async def _wait(self, process: asyncio.subprocess.Process, name: str) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await process.wait()
        except TimeoutError:
            raise ProgramFailedError(
                f"the program of {name} did not build its job within {self._timeout:g} s (web.submit.timeout)"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())


def _failure(name: str, status: int, output: str) -> ProgramFailedError:
    lines = [line for line in output.splitlines() if line.strip()]
    if status < 0:
        return ProgramFailedError(f"the program of {name} was ended by signal {-status}", output.strip())
    if not lines:
        return ProgramFailedError(f"the program of {name} ended with status {status} and no message")
    return ProgramFailedError(lines[-1].strip(), output.strip() if len(lines) > 1 else "")


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
