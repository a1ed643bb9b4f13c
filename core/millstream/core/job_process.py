"""Starts a process of a job in the job's own environment, fetching and installing its artifacts first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from millstream.core.artifacts import download_artifact
from millstream.core.child import ChildProcess
from millstream.core.configuration import Configuration
from millstream.core.directories import work_directory
from millstream.core.environments import EnvironmentCache
from millstream.core.graph import Artifact
from millstream.core.rpc import open_channel


async def start_job_process(
    module: str,
    arguments: Sequence[str],
    artifacts: Sequence[Artifact],
    artifact_address: str,
    python_path: Sequence[str],
    configuration: Configuration,
    progress: Callable[[str], None],
    variables: Mapping[str, str] | None = None,
) -> ChildProcess:
    """Runs `python -m module arguments` where the job's packages are. Raises MillstreamError with the reason."""
    cache = EnvironmentCache(
        work_directory(configuration, "environments"), configuration.string("python.executable") or None
    )
    async with open_channel(artifact_address, configuration) as channel:

        async def fetch(artifact: Artifact, path: Path) -> None:
            await download_artifact(channel, artifact, path)

        environment = await cache.prepare(artifacts, fetch, progress)
    return await ChildProcess.start(environment, module, arguments, python_path, variables)
