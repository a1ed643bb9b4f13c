"""`millstream standalone-job`: a program with a cluster of its own in one process, which ends with it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from millstream.cli.failures import Command
from millstream.cli.options import configuration_options, verbose_option
from millstream.cli.programs.programs import (
    PASS_ON,
    job_source,
    program_options,
    recovery_options,
    state_recovery,
    with_options,
)
from millstream.core.jobs.ids import JobId
from millstream.core.processes.handed_down import handed_down_options, keep_to_this_process
from millstream.core.settings.configuration import Configuration

NAME = "standalone-job"


@click.command(NAME, cls=Command, context_settings=PASS_ON)
@configuration_options
@verbose_option
@program_options
@recovery_options
@click.option("-jid", "--job-id", "job_id", metavar="ID", help="The job's id: 32 hexadecimal digits, as any job has.")
def standalone_job(
    config_dir: str | None,
    overrides: tuple[str, ...],
    verbose: bool,
    savepoint: str | None,
    allow_non_restored: bool,
    claim_mode: str | None,
    job_id: str | None,
    parallelism: int | None,
    **program: Any,
) -> int:
    """Run a program with a dispatcher, a resource manager and a job manager of its own, for task managers to register.

    All of it ends with the program and its jobs: status 0 when they finished or were cancelled, another one when they
    failed. SIGTERM ends the process and not the jobs, with status 143.
    """
    from millstream.dispatcher.admission import is_id

    if job_id is not None and not is_id(job_id):
        raise click.UsageError(f"--job-id '{job_id}' is not a job id; it has 32 hexadecimal digits")
    configuration = Configuration.load(config_dir, overrides).merged(handed_down_options())
    keep_to_this_process()
    recovery = state_recovery(savepoint, allow_non_restored, claim_mode)
    configuration = with_options(configuration, parallelism, program).merged(recovery)
    with tempfile.TemporaryDirectory(prefix="millstream-") as scratch:
        source = job_source(program, configuration, Path(scratch))
        from millstream.cli.programs.application import Application
        from millstream.core.processes.daemon import run_service

        chosen = JobId(job_id) if job_id else None
        return run_service(NAME, lambda given: Application(source, given, chosen), configuration, signal_status=True)
