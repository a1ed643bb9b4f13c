"""Runs a user's program in the job's environment.

`run` becomes the program: the process is replaced, so that signals, the terminal and the exit status are the program's
own, and nothing is left behind when it is killed. `info` runs it as a child and reads the plan that it wrote.
`standalone-job` runs it as a child beside its services.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from millstream.cli.programs.program_source import ArtifactFile, ProgramSource
from millstream.core.environments.artifacts import sha256_of
from millstream.core.environments.environment_use import in_use
from millstream.core.environments.environments import Environment, EnvironmentCache
from millstream.core.errors import MillstreamError
from millstream.core.jobs.graph import Artifact
from millstream.core.processes.child import child_variables
from millstream.core.processes.handed_down import secret_options
from millstream.core.services.leader_lookup import ConfiguredLeaders, Role
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import split_options
from millstream.core.settings.variables import PARENT_FD, PLAN_FILE, PROGRAM_ARTIFACTS, PROGRAM_CONFIGURATION


def artifacts_of(files: Sequence[ArtifactFile]) -> list[Artifact]:
    """The files as artifacts of a job."""
    return [Artifact(sha256_of(file.path), file.name, file.kind) for file in files]


async def prepare_environment(
    files: Sequence[ArtifactFile], configuration: Configuration, progress: Callable[[str], None]
) -> tuple[Environment, list[Artifact]]:
    """The environment of these files on this host, and the artifacts that they are."""
    artifacts = artifacts_of(files)
    paths = {artifact: file.path for artifact, file in zip(artifacts, files, strict=True)}

    async def fetch(artifact: Artifact, target: Path) -> None:
        shutil.copyfile(paths[artifact], target)

    return await EnvironmentCache.of(configuration).prepare(artifacts, fetch, progress), artifacts


async def submit_artifacts(
    source: ProgramSource, configuration: Configuration, progress: Callable[[str], None]
) -> tuple[Environment, list[Artifact]]:
    """Uploads what the job consists of to the dispatcher, and makes its environment on this host."""
    from millstream.core.environments.artifacts import upload_artifact
    from millstream.core.services.rpc import channel_for_calls

    if source.files:
        dispatcher = (await ConfiguredLeaders(configuration).leader_of(Role.DISPATCHER)).address
        async with channel_for_calls(dispatcher, configuration) as channel:
            for file in source.files:
                progress(f"uploading {file.name}")
                await upload_artifact(channel, file.path, file.kind)
    return await prepare_environment(source.files, configuration, progress)


def become_program(
    environment: Environment,
    source: ProgramSource,
    configuration: Configuration,
    artifacts: Sequence[Artifact],
    more: Mapping[str, str],
) -> NoReturn:
    """Replaces this process by the program, in the user's working directory. Returns only to raise.

    `more` are variables for it.
    """
    command = _command(environment, source)
    plain, secret = split_options(configuration.to_dict())
    with secret_options(secret) as (descriptors, secret_variables), in_use(environment.lock) as held:
        for descriptor in (*descriptors, *held):
            os.set_inheritable(descriptor, True)
        variables = child_variables(environment, variables={**_variables(plain, artifacts), **secret_variables, **more})
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the program's `main`
        try:
            os.execve(command[0], command, variables)
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            raise MillstreamError(f"cannot run the interpreter {command[0]}: {error.strerror}") from error


@contextlib.contextmanager
def running_program(
    environment: Environment,
    source: ProgramSource,
    configuration: Configuration,
    artifacts: Sequence[Artifact],
    more: Mapping[str, str],
) -> Iterator[subprocess.Popen[bytes]]:
    """The program as a child in a session of its own, which ends when this block does, or this process in any way.

    It prints where this process does. `more` are variables for it.
    """
    command = _command(environment, source)
    plain, secret = split_options(configuration.to_dict())
    theirs, ours = os.pipe()  # however this process ends, the program reads the end of it and ends as well
    try:
        with secret_options(secret) as (descriptors, secret_variables), in_use(environment.lock) as held:
            orders = {**_variables(plain, artifacts), **secret_variables, **more, PARENT_FD: str(theirs)}
            process = subprocess.Popen(
                command,
                env=child_variables(environment, variables=orders),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs, *descriptors, *held),
                start_new_session=True,
            )
    except OSError as error:
        os.close(ours)
        raise MillstreamError(f"cannot run the interpreter {command[0]}: {error.strerror}") from error
    finally:
        os.close(theirs)
    try:
        yield process
    finally:
        os.close(ours)


def write_plan(
    environment: Environment,
    source: ProgramSource,
    configuration: Configuration,
    artifacts: Sequence[Artifact],
    plan_file: Path,
    more: Mapping[str, str] | None = None,
) -> int:
    """Runs the program until it has written the plan of its first job. What it prints goes to stderr.

    `more` are variables for the program's process. Returns its exit status.
    """
    plain, secret = split_options(configuration.to_dict())
    program = {**_variables(plain, artifacts), PLAN_FILE: str(plan_file), **(more or {})}
    command = _command(environment, source)
    with secret_options(secret) as (descriptors, secret_variables), in_use(environment.lock) as held:
        variables = child_variables(environment, variables={**program, **secret_variables})
        try:
            status = subprocess.run(
                command, env=variables, stdout=sys.stderr.fileno(), check=False, pass_fds=(*descriptors, *held)
            ).returncode
        except OSError as error:
            raise MillstreamError(f"cannot run the interpreter {command[0]}: {error.strerror}") from error
    return status if status >= 0 else 128 - status


def _command(environment: Environment, source: ProgramSource) -> list[str]:
    python = shutil.which(environment.python) or environment.python
    isolation = [] if source.imports_working_directory else ["-P"]
    return [python, *isolation, "-m", "millstream.client.program", *source.selector, "--", *source.arguments]


def _variables(options: Mapping[str, str], artifacts: Sequence[Artifact]) -> dict[str, str]:
    listed = [{"sha256": artifact.sha256, "name": artifact.name, "kind": artifact.kind.name} for artifact in artifacts]
    return {
        PROGRAM_CONFIGURATION: json.dumps(options),
        PROGRAM_ARTIFACTS: json.dumps(listed),
    }
