"""Starts a process of a job in the job's own environment, fetching and installing its artifacts first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from millstream.core.environments.artifacts import download_artifact
from millstream.core.environments.environments import EnvironmentCache
from millstream.core.jobs.graph import Artifact
from millstream.core.processes.child import ChildProcess
from millstream.core.services.rpc import open_channel
from millstream.core.settings.configuration import Configuration


async def start_job_process(
    module: str,
    arguments: Sequence[str],
    artifacts: Sequence[Artifact],
    artifact_address: str,
    python_path: Sequence[str],
    configuration: Configuration,
    progress: Callable[[str], None],
    outputs: Callable[[], tuple[int, int] | None] = lambda: None,
    variables: Mapping[str, str] | None = None,
) -> ChildProcess:
    """Runs `python -m module arguments` where the job's packages are. Raises MillstreamError with the reason.

    `outputs` opens its standard output and error; without them, it writes where this process does.
    """
    cache = EnvironmentCache.of(configuration)
    async with open_channel(artifact_address, configuration) as channel:

        async def fetch(artifact: Artifact, path: Path) -> None:
            await download_artifact(channel, artifact, path)

        environment = await cache.prepare(artifacts, fetch, progress)
    opened = outputs()
    try:
        output, errors = opened or (None, None)
        return await ChildProcess.start(environment, module, arguments, python_path, variables, output, errors)
    finally:
        for descriptor in opened or ():
            os.close(descriptor)
