"""Commands that take and delete snapshots: `savepoint`, `stop` and `checkpoint`.

Each sends a request to the REST API, which returns a trigger id, and polls that until the operation has ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from millstream.cli.completion import complete_job
from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import absolute_location, client_configuration, client_options, job_argument
from millstream.cli.progress import progress_on_terminal
from millstream.cli.rest import RestClient, RestError
from millstream.core.backoff import Backoff
from millstream.core.errors import MillstreamError

F = TypeVar("F", bound=Callable[..., Any])

_POLLS = Backoff(0.05, 1.0, 1.5)  # seconds between two looks at an operation
_DISPOSAL = "/savepoint-disposal"
_FORMATS = click.Choice(["canonical", "native"], case_sensitive=False)


def _snapshot_options(command: F) -> F:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Prints JSON."),
        click.option("-detached", "--detached", is_flag=True, help="Prints the trigger id and does not wait."),
    ):
        command = option(command)
    return client_options(command)


def _format_option(command: F) -> F:
    help_text = "The format of the savepoint: canonical (default), or native to the state backend."
    return click.option("-type", "--type", "format_type", type=_FORMATS, default="canonical", help=help_text)(command)


@click.command(cls=Command)
@_snapshot_options
@_format_option
@click.option("-d", "--dispose", metavar="PATH", help="Deletes the savepoint at PATH; takes none.")
@click.argument("job", metavar="[JOB]", required=False, shell_complete=complete_job)
@click.argument("directory", metavar="[DIR]", required=False)
def savepoint(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    detached: bool,
    as_json: bool,
    format_type: str,
    dispose: str | None,
    job: str | None,
    directory: str | None,
) -> int:
    """Take a savepoint of a job, into DIR or the configured directory, or delete one."""
    if (job is None) == (dispose is None):
        raise click.UsageError("name a job to take a savepoint of, or the savepoint to --dispose")
    client = RestClient(client_configuration(config_dir, overrides, address))
    if dispose is not None:
        path = absolute_location(dispose)
        operation = _Operation(client, _DISPOSAL, _DISPOSAL, {"savepoint-path": path})
        return operation.run(lambda _: f"Savepoint '{path}' disposed.", detached, as_json, verbose)
    assert job is not None
    body = {"formatType": format_type.upper(), **_directory("target-directory", directory)}
    savepoints = f"/jobs/{job_id_of(client, job)}/savepoints"
    operation = _Operation(client, savepoints, savepoints, body)
    return operation.run(_savepoint_text, detached, as_json, verbose)


@click.command(cls=Command)
@_snapshot_options
@_format_option
@click.option("-p", "--savepointPath", "directory", metavar="DIR", help="Where the savepoint goes.")
@click.option("-d", "--drain", is_flag=True, help="Advances event time to its end first.")
@job_argument
def stop(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    detached: bool,
    as_json: bool,
    format_type: str,
    directory: str | None,
    drain: bool,
    job: str,
) -> int:
    """Stop a job with a savepoint: nothing is emitted after it, and what was written is committed."""
    body = {"drain": drain, "formatType": format_type.upper(), **_directory("targetDirectory", directory)}
    client = RestClient(client_configuration(config_dir, overrides, address))
    path = f"/jobs/{job_id_of(client, job)}"
    operation = _Operation(client, f"{path}/stop", f"{path}/savepoints", body)
    return operation.run(_savepoint_text, detached, as_json, verbose)


@click.command(cls=Command)
@_snapshot_options
@click.option("-full", "--full", is_flag=True, help="The checkpoint refers to no file of an earlier one.")
@job_argument
def checkpoint(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    detached: bool,
    as_json: bool,
    full: bool,
    job: str,
) -> int:
    """Take a checkpoint of a job now."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    checkpoints = f"/jobs/{job_id_of(client, job)}/checkpoints"
    body = {"checkpointType": "FULL" if full else "CONFIGURED"}
    operation = _Operation(client, checkpoints, checkpoints, body)
    return operation.run(lambda done: f"Checkpoint {done['checkpointId']} completed.", detached, as_json, verbose)


def _directory(name: str, directory: str | None) -> dict[str, str]:
    return {} if directory is None else {name: absolute_location(directory)}


def _savepoint_text(outcome: dict[str, Any]) -> str:
    return f"Savepoint completed. Path: {outcome['location']}"


class _Operation:
    """One operation of the cluster: where it is triggered, where its status is, and the request's body."""

    def __init__(self, client: RestClient, trigger: str, status: str, body: dict[str, Any]) -> None:
        self._client = client
        self._trigger = trigger
        self._status = status
        self._body = body

    def run(self, success: Callable[[dict[str, Any]], str], detached: bool, as_json: bool, verbose: bool) -> int:
        """Triggers the operation and, unless detached, waits for its end; prints the result."""
        trigger_id = self._client.post(self._trigger, self._body)["request-id"]
        if detached:
            click.echo(json.dumps({"request-id": trigger_id}) if as_json else f"Triggered: {trigger_id}")
            return 0
        with progress_on_terminal(verbose) as progress:
            progress(f"waiting for {self._status}/{trigger_id}")
            outcome = self._outcome(trigger_id)
        failure = outcome.get("failure-cause") or outcome.get("failureCause")
        if failure:
            raise MillstreamError(str(failure.get("stack-trace") or failure.get("class")).strip().split("\n", 1)[0])
        click.echo(json.dumps({"request-id": trigger_id, **outcome}) if as_json else success(outcome))
        return 0

    def _outcome(self, trigger_id: str) -> dict[str, Any]:
        pauses = _POLLS.delays()
        while (status := self._polled(trigger_id))["status"]["id"] != "COMPLETED":
            time.sleep(next(pauses))
        return status.get("operation") or {}

    def _polled(self, trigger_id: str) -> dict[str, Any]:
        """How far it is. A dispatcher that has followed another one does not know: the request is repeated.

        The job manager takes that for the same request, and returns its result.
        """
        path = f"{self._status}/{trigger_id}"
        try:
            return dict(self._client.get(path))
        except RestError as error:
            if error.status != 404 or self._trigger == _DISPOSAL:
                raise
        try:
            self._client.post(self._trigger, {**self._body, "triggerId": trigger_id})
        except RestError as error:
            if error.status != 409:
                raise
            raise MillstreamError(
                f"the dispatcher of the request is gone, and its result is not known: {error}"
            ) from error
        return dict(self._client.get(path))
