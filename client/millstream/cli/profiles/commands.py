"""`millstream profile` and `millstream thread-dump`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import client_configuration, client_options, job_argument
from millstream.cli.progress import progress_on_terminal
from millstream.cli.rest import RestClient
from millstream.cli.tables import print_table
from millstream.core.errors import MillstreamError
from millstream.core.logs.printable import printable

_POLL = 0.2
_WAITING, _DISABLED, _TERMINATED = -3, -2, -1
_LONGEST = 60.0
_SHOWN = 25


@click.command(cls=Command)
@client_options
@click.option(
    "--duration", type=click.FloatRange(0.1, _LONGEST), default=5.0, show_default=True, help="Seconds to sample for."
)
@click.option(
    "--interval", type=click.IntRange(1, 1000), default=10, show_default=True, help="Milliseconds between samples."
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["full", "on_cpu", "off_cpu"]),
    default="full",
    show_default=True,
    help="All samples, those that took processor time, or those that waited.",
)
@click.option("--subtask", type=click.IntRange(min=0), help="Only this subtask, counted from 0.")
@click.option("--runtime", is_flag=True, help="Shows frames of the runtime, too.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Writes the graph: a page for browsers (.html), speedscope's format (.json), else collapsed stacks.",
)
@job_argument
@click.argument("vertex")
def profile(
    config_dir: str | None, overrides: tuple[str, ...], address: str | None, verbose: bool, duration: float,
    interval: int, kind: str, subtask: int | None, runtime: bool, output: Path | None, job: str, vertex: str,
) -> int:  # fmt: skip
    """Sample where the time of a vertex goes. VERTEX is its id, or a part of its name that only one has.

    Prints the functions that most samples were in.
    """
    from millstream.cli.profiles import formats
    from millstream.core.inspection.flame_graph_page import page

    client = RestClient(client_configuration(config_dir, overrides, address))
    job_id = job_id_of(client, job)
    found = _vertex(client.get(f"/jobs/{job_id}"), vertex)
    path = f"/jobs/{job_id}/vertices/{found['id']}/flamegraph?type={kind}&interval={interval}"
    path += f"&duration={round(1000 * duration)}&runtime={str(runtime).lower()}"
    path += "" if subtask is None else f"&subtaskindex={subtask}"
    graph = _sampled(client, path, duration, verbose)
    for problem in graph["problems"]:
        click.echo(printable(problem), err=True)
    root, title = graph["data"], f"{found['name']} ({kind})"
    if output is not None:
        match output.suffix.lower():
            case ".html" | ".htm":
                content = page(root, title)
            case ".json":
                content = formats.speedscope(root, title, interval)
            case _:
                content = formats.collapsed(root)
        try:
            output.write_text(content, encoding="utf-8")
        except OSError as error:
            raise MillstreamError(f"cannot write {output}: {error.strerror}") from error
        click.echo(f"{root['value']} samples are in {output}.")
        return 0
    rows = [
        [f"{100 * hot.itself / root['value']:.1f} %", f"{100 * hot.within / root['value']:.1f} %", hot.name]
        for hot in formats.hottest(root)[:_SHOWN]
    ]
    by = " and ".join({"worker": "the slot workers"}.get(one, one) for one in graph["samplers"])
    click.echo(f"{printable(title)}: {root['value']} samples" + (f", taken by {printable(by)}" if by else ""))
    if rows:
        print_table(["ITSELF", "WITH CALLS", "FUNCTION"], rows)
    elif not graph["problems"]:
        click.echo("In every sample, the thread of its slot worked for other vertices.", err=True)
    return 0


def _vertex(job: dict[str, Any], wanted: str) -> dict[str, Any]:
    """The vertex of this id or name. Raises MillstreamError when there is none, or several."""
    vertices: list[dict[str, Any]] = job["vertices"]
    found = [v for v in vertices if v["id"] == wanted] or [v for v in vertices if v["name"] == wanted]
    found = found or [v for v in vertices if wanted.lower() in v["name"].lower()]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{v['id']} ({printable(v['name'])})" for v in found or vertices)
    problem = f"{len(found)} vertices have '{wanted}' in their name" if found else f"no vertex is called '{wanted}'"
    raise MillstreamError(f"{problem}: name one of them, {known}")


def _sampled(client: RestClient, path: str, duration: float, verbose: bool) -> dict[str, Any]:
    began = time.monotonic()
    with progress_on_terminal(verbose) as progress:
        graph: dict[str, Any] = client.get(f"{path}&refresh=true")
        while graph["endTimestamp"] == _WAITING:
            gone = time.monotonic() - began
            progress(f"sampling: {min(gone, duration):.0f} of {duration:g} s" if gone < duration else "gathering")
            time.sleep(_POLL)
            graph = client.get(path)
    if graph["endTimestamp"] == _DISABLED:
        raise MillstreamError("flame graphs are disabled on this cluster: rest.flamegraph.enabled")
    if graph["endTimestamp"] == _TERMINATED:
        raise MillstreamError("it has ended: only what runs can be sampled")
    return graph


@click.command("thread-dump", cls=Command)
@client_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON, in the shape of the REST API.")
@click.argument("name", metavar="TASKMANAGER|SERVICE")
def thread_dump(
    config_dir: str | None, overrides: tuple[str, ...], address: str | None, verbose: bool, as_json: bool, name: str
) -> int:
    """Show where the threads of a task manager and its slot workers are, or of another service.

    Others are named as dispatcher, jobmanager or resourcemanager, or by the id of a job manager.
    """
    client = RestClient(client_configuration(config_dir, overrides, address))
    dump = client.get(f"{_owner(client, name)}/thread-dump")
    if as_json:
        click.echo(json.dumps(dump, indent=2))
        return 0
    for info in dump["threadInfos"]:
        process, _, _ = info["threadName"].rpartition(": ")
        if process.startswith("slot "):
            click.echo(f"==> {printable(process)} <==")
        for line in info["stringifiedThreadInfo"].rstrip().splitlines():
            click.echo(printable(line))
        click.echo()
    return 0


def _owner(client: RestClient, name: str) -> str:
    """The path of a process in the API."""
    services = client.get("/jobmanagers")["jobmanagers"]
    for service in services:
        if name in (service["id"], service["role"]):
            return f"/jobmanagers/{quote(service['id'])}"
    managers = [str(manager["id"]) for manager in client.get("/taskmanagers")["taskmanagers"]]
    found = [one for one in managers if one == name] or [one for one in managers if one.startswith(name)]
    if len(found) == 1:
        return f"/taskmanagers/{quote(found[0])}"
    known = ", ".join([*managers, *(service["id"] for service in services)])
    raise MillstreamError(f"'{name}' is no task manager and no service; there are {known}")
