"""Runs a user's program as a process of its own, in the job's environment.

The process leads a session of its own: signals reach it only through this one, so that Ctrl-C arrives once, whether it
came from the terminal or from `kill`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from millstream.cli.program_source import ArtifactFile, ProgramSource
from millstream.core.artifacts import sha256_of
from millstream.core.child import child_variables
from millstream.core.configuration import Configuration
from millstream.core.directories import work_directory
from millstream.core.environments import Environment, EnvironmentCache
from millstream.core.errors import MillstreamError
from millstream.core.graph import Artifact

PATIENCE = 3  # interrupts before a program that does not end is killed


def artifacts_of(files: Sequence[ArtifactFile]) -> list[Artifact]:
    """The artifacts that the files are."""
    return [Artifact(sha256_of(file.path), file.name, file.kind) for file in files]


async def prepare_environment(
    files: Sequence[ArtifactFile], configuration: Configuration, progress: Callable[[str], None]
) -> tuple[Environment, list[Artifact]]:
    """The environment of these files on this host, and the artifacts that they are."""
    artifacts = artifacts_of(files)
    paths = {artifact: file.path for artifact, file in zip(artifacts, files, strict=True)}

    async def fetch(artifact: Artifact, target: Path) -> None:
        shutil.copyfile(paths[artifact], target)

    python = configuration.string("python.executable") or None
    cache = EnvironmentCache(work_directory(configuration, "environments"), python)
    return await cache.prepare(artifacts, fetch, progress), artifacts


def run_program(
    environment: Environment,
    source: ProgramSource,
    configuration: Configuration,
    artifacts: Sequence[Artifact],
    variables: Mapping[str, str] | None = None,
    stdout: IO[bytes] | int | None = None,
) -> int:
    """Runs the program to its end in the user's working directory; answers its exit status."""
    program = {
        "MILLSTREAM_PROGRAM_CONFIGURATION": json.dumps(configuration.to_dict()),
        "MILLSTREAM_PROGRAM_ARTIFACTS": json.dumps(
            [{"sha256": artifact.sha256, "name": artifact.name, "kind": artifact.kind.name} for artifact in artifacts]
        ),
    }
    isolation = [] if source.imports_working_directory else ["-P"]
    command = [environment.python, *isolation, "-m", "millstream.client.program", *source.selector]
    try:
        process = subprocess.Popen(
            [*command, "--", *source.arguments],
            env=child_variables(environment, variables={**program, **(variables or {})}),
            stdout=stdout,
            start_new_session=True,
        )
    except OSError as error:
        raise MillstreamError(f"cannot run the interpreter {environment.python}: {error.strerror}") from error
    with process, _forwarding_signals(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _forwarding_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    interrupts = 0

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        with contextlib.suppress(ProcessLookupError):
            if interrupts >= PATIENCE:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.send_signal(number)

    previous = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
