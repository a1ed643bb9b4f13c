"""Commands about programs: `run` submits the jobs of one to a cluster, `info` shows the plan of one."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from millstream.cli.failures import Command
from millstream.cli.options import (
    absolute_location,
    client_configuration,
    client_options,
    configuration_options,
    verbose_option,
)
from millstream.cli.progress import progress_in_lines, progress_on_terminal
from millstream.core.errors import InvalidProgramError, MillstreamError
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_ATTACHED, EXECUTION_TARGET
from millstream.core.settings.options.scheduling import PARALLELISM_DEFAULT
from millstream.core.settings.options.services import DISPATCHER_RPC_PORT
from millstream.core.settings.options.submission import (
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from millstream.core.settings.variables import RUN_ARGUMENTS

if TYPE_CHECKING:
    from millstream.cli.programs.program_source import ProgramSource
    from millstream.cli.rest import RestClient

F = TypeVar("F", bound=Callable[..., Any])

_CLAIM_MODES = click.Choice(["NO_CLAIM", "CLAIM"], case_sensitive=False)
PASS_ON = {"allow_interspersed_args": False}  # everything after the program's name is the program's


def program_options(command: F) -> F:
    """What to run, and what it needs."""
    for option in (
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[JOB.whl|JOB.py] [ARGS]..."),
        click.option("-pyexec", "python", metavar="PYTHON", help="The interpreter that the job runs with."),
        click.option("-pyarch", "archives", metavar="A,B#NAME", help="Archives to unpack where the job works."),
        click.option(
            "-pyreq", "requirements", metavar="FILE[#DIR]", help="A requirements.txt to install, from DIR if given."
        ),
        click.option("-pyfs", "python_files", metavar="A,B", help="Files or folders for the job's import path."),
        click.option("-pym", "module", metavar="MODULE", help="Runs a module."),
        click.option("-py", "python_file", metavar="FILE", help="Runs a Python file."),
        click.option("-c", "--class", "entry", metavar="PKG.MODULE:MAIN", help="The entry point of a wheel."),
        click.option("-p", "--parallelism", type=click.IntRange(min=1), help="The parallelism of the job."),
    ):
        command = option(command)
    return command


def recovery_options(command: F) -> F:
    """Where the job's state comes from."""
    for option in (
        click.option(
            "-claim",
            "--claimMode",
            "claim_mode",
            type=_CLAIM_MODES,
            metavar="MODE",
            help="NO_CLAIM (default): it stays yours; CLAIM: the job takes it over, and deletes it.",
        ),
        click.option(
            "-n",
            "--allowNonRestoredState",
            "allow_non_restored",
            is_flag=True,
            help="Leaves out state in it that the job has no operator for; else that is an error.",
        ),
        click.option(
            "-s",
            "--fromSavepoint",
            "savepoint",
            metavar="PATH",
            help="The savepoint or retained checkpoint to start from.",
        ),
    ):
        command = option(command)
    return command


@click.command(cls=Command, context_settings=PASS_ON)
@client_options
@program_options
@click.option("-d", "--detached", is_flag=True, help="Returns once the job is accepted.")
@recovery_options
@click.option(
    "--dry-run",
    is_flag=True,
    help="Starts nothing: prints how the snapshot of -s fits the program. Calls open() of the program's functions.",
)
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: prints JSON.")
def run(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    detached: bool,
    savepoint: str | None,
    allow_non_restored: bool,
    claim_mode: str | None,
    dry_run: bool,
    as_json: bool,
    parallelism: int | None,
    **program: Any,
) -> int:
    """Run a program's jobs on a cluster: a wheel, a Python file or a module. Ctrl-C cancels."""
    import asyncio

    from millstream.cli.programs.program_process import become_program, submit_artifacts
    from millstream.cli.programs.rerun import rerun_arguments
    from millstream.cli.rest import RestClient

    if as_json and not dry_run:
        raise click.UsageError("--json belongs to --dry-run")
    recovery, given = state_recovery(savepoint, allow_non_restored, claim_mode), program["arguments"]
    if dry_run:
        configuration = with_options(Configuration.load(config_dir, overrides), parallelism, program)
        return _dry_run(program, configuration.merged(recovery), as_json, verbose)
    configuration = with_options(client_configuration(config_dir, overrides, address), parallelism, program)
    configuration = configuration.merged(recovery)
    configuration.set(EXECUTION_TARGET, "remote")
    if detached:
        configuration.set(EXECUTION_ATTACHED, False)
    with tempfile.TemporaryDirectory(prefix="millstream-") as scratch:
        source = job_source(program, configuration, Path(scratch))
        client = RestClient(configuration)
        configuration = configuration.merged(_dispatcher_of(client, configuration))
        environment, artifacts = asyncio.run(submit_artifacts(source, configuration, progress_in_lines(verbose)))
    again = {RUN_ARGUMENTS: rerun_arguments(sys.argv, len(given))}
    return become_program(environment, source, configuration, artifacts, again)


def _dry_run(program: dict[str, Any], configuration: Configuration, as_json: bool, verbose: bool) -> int:
    from millstream.cli.programs.dry_run import compare_with_snapshot

    with tempfile.TemporaryDirectory(prefix="millstream-") as scratch:
        source = job_source(program, configuration, Path(scratch))
        return compare_with_snapshot(source, configuration, Path(scratch), as_json, verbose)


@click.command(cls=Command, context_settings=PASS_ON)
@configuration_options
@verbose_option
@program_options
def info(
    config_dir: str | None,
    overrides: tuple[str, ...],
    verbose: bool,
    parallelism: int | None,
    **program: Any,
) -> int:
    """Print the plan of a program's job as JSON. Needs no cluster."""
    import asyncio

    from millstream.cli.programs.program_process import prepare_environment, write_plan
    from millstream.core.jobs.plan_json import plan_json
    from millstream.core.wire.contracts import JOB_GRAPH

    configuration = with_options(Configuration.load(config_dir, overrides), parallelism, program)
    with tempfile.TemporaryDirectory(prefix="millstream-") as scratch:
        source = job_source(program, configuration, Path(scratch))
        with progress_on_terminal(verbose) as progress:
            environment, artifacts = asyncio.run(prepare_environment(source.files, configuration, progress))
        plan_file = Path(scratch) / "plan"
        status = write_plan(environment, source, configuration, artifacts, plan_file)
        if status != 0:
            return status
        if not plan_file.exists():
            raise InvalidProgramError("the program built no job: it never called execute()")
        graph = JOB_GRAPH.from_bytes(plan_file.read_bytes())
    click.echo(json.dumps(plan_json(graph), indent=2))
    return 0


def job_source(program: dict[str, Any], configuration: Configuration, scratch: Path) -> ProgramSource:
    """The program that the options name. The options of its needs have to be in the configuration already."""
    from millstream.cli.programs.program_source import ProgramOptions, program_source

    return program_source(ProgramOptions(**program), configuration, scratch)


def with_options(configuration: Configuration, parallelism: int | None, program: dict[str, Any]) -> Configuration:
    """With what has an option of its own; that is taken out of `program`."""
    more: dict[str, Any] = {
        PARALLELISM_DEFAULT: parallelism,
        PYTHON_EXECUTABLE: program.pop("python"),
        PYTHON_FILES: program.pop("python_files"),
        PYTHON_REQUIREMENTS: program.pop("requirements"),
        PYTHON_ARCHIVES: program.pop("archives"),
    }
    return configuration.merged({key: value for key, value in more.items() if value is not None})


def state_recovery(savepoint: str | None, allow_non_restored: bool, claim_mode: str | None) -> dict[str, str]:
    """The options for where the job's state comes from, as far as they were given."""
    given = {
        "path": absolute_location(savepoint) if savepoint is not None else None,
        "ignore-unclaimed-state": "true" if allow_non_restored else None,
        "claim-mode": claim_mode,
    }
    return {f"execution.state-recovery.{key}": value for key, value in given.items() if value is not None}


def _dispatcher_of(client: RestClient, configuration: Configuration) -> dict[str, str]:
    """Where the cluster's dispatcher accepts jobs: as its REST API reports, else as configured."""
    reported = client.get("/config")
    if not reported.get("features", {}).get("web-submit", True):
        raise MillstreamError(f"{client.address} is of an application that runs its own jobs, and accepts no others")
    address = str(reported.get("dispatcher-rpc-address", ""))
    if ":" in address:
        return address_options(Role.DISPATCHER, address)
    if configuration.is_set(DISPATCHER_RPC_PORT) and configuration.get(DISPATCHER_RPC_PORT):
        return {}
    raise MillstreamError(
        f"{client.address} does not report where its dispatcher accepts jobs: is it a Millstream cluster?"
        " If so, set dispatcher.rpc.address and dispatcher.rpc.port"
    )
