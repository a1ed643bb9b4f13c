"""Starts a process of a job in the job's own environment, fetching and installing its artifacts first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from millstream.core.environments.artifacts import download_artifact
from millstream.core.environments.environments import EnvironmentCache
from millstream.core.jobs.graph import Artifact
from millstream.core.processes.child import Child, ChildProcess
from millstream.core.services.rpc import channel_for_calls
from millstream.core.settings.configuration import Configuration


class JobProcess(Struct, frozen=True):
    """What is to run: `python -m module arguments`, where the job's packages are."""

    module: str
    arguments: Sequence[str]
    artifacts: Sequence[Artifact]
    artifact_address: str
    """The dispatcher to fetch them from."""
    python_path: Sequence[str]
    variables: Mapping[str, str] | None = None


class Launcher(Protocol):
    """Starts processes of jobs. A service has `start_job_process`, unless it is handed another."""

    async def __call__(
        self,
        process: JobProcess,
        configuration: Configuration,
        progress: Callable[[str], None],
        outputs: Callable[[], tuple[int, int] | None] = lambda: None,
    ) -> Child:
        """As `start_job_process`."""
        ...


async def start_job_process(
    process: JobProcess,
    configuration: Configuration,
    progress: Callable[[str], None],
    outputs: Callable[[], tuple[int, int] | None] = lambda: None,
) -> ChildProcess:
    """Returns the process once it runs. Raises MillstreamError with the reason when that cannot be.

    `outputs` opens its standard output and error; without them, it writes where this process does.
    """
    cache = EnvironmentCache.of(configuration)
    async with channel_for_calls(process.artifact_address, configuration) as channel:

        async def fetch(artifact: Artifact, path: Path) -> None:
            await download_artifact(channel, artifact, path)

        environment = await cache.prepare(process.artifacts, fetch, progress)
    opened = outputs()
    try:
        output, errors = opened or (None, None)
        return await ChildProcess.start(
            environment, process.module, process.arguments, process.python_path, process.variables, output, errors
        )
    finally:
        for descriptor in opened or ():
            os.close(descriptor)
