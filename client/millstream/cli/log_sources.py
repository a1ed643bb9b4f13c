"""Which log files there are of a job, a task manager or a service, read over REST."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from millstream.cli.rest import RestClient, RestError
from millstream.core.errors import MillstreamError
from millstream.core.logs.recent_events import chain_of

SERVICES = ("dispatcher", "jobmanager", "resourcemanager")
LOGS, PRINTS = (".log", ".out"), (".out",)
"""The files of what was logged, with what functions printed; and of all that was printed."""


class LogSource(Struct):
    """A file of a service, and how far it was read.

    `older` are those that were moved aside. `tail` is what stands right before what comes next, by which the file is
    known again when another one has got its name; `part` is the beginning of a line whose end has not come. `is_shared`
    reports that it has events of others too.
    """

    owner: str  # the path of the service in the API
    name: str
    older: Sequence[str] = ()
    is_shared: bool = False
    offset: int = 0
    tail: bytes = field(default=b"")
    part: bytes = field(default=b"")
    passes: bool | None = None
    """Whether the last event that came passed: the lines behind it that begin none belong to it."""

    @property
    def path(self) -> str:
        """The path of the file in the REST API."""
        return f"{self.owner}/logs/{quote(self.name)}"

    @property
    def continues(self) -> bool:
        """Whether lines that begin no event belong to the one before; among prints they are a print sink's."""
        return not self.name.endswith(PRINTS)


def sources_of(client: RestClient, wanted: str, suffixes: tuple[str, ...]) -> list[LogSource]:
    """The files of a job's workers, of a task manager by its id or name, or of a service. Raises when none is there.

    With those of a job's workers, the logs of job managers, which contain its restarts.
    """
    if wanted.partition("-")[0].partition("@")[0] in SERVICES:
        found = _of_services(client, wanted, suffixes)
        return found or _none(f"{wanted} has no log files that can be read (env.log.dir)")
    managers = [str(manager["id"]) for manager in client.get("/taskmanagers")["taskmanagers"]]
    files = [source for manager in managers for source in _listed(client, f"/taskmanagers/{quote(manager)}", suffixes)]
    if wanted in managers or wanted.partition("-")[0] == "taskmanager":
        found = [s for s in files if s.owner == f"/taskmanagers/{quote(wanted)}" or s.name.partition(".")[0] == wanted]
        return found or _none(_no_task_manager(wanted, managers))
    found = [s for s in files if f".{wanted}.slot-" in s.name]
    if not found and re.fullmatch("[0-9a-fA-F]{32}", wanted) is None:
        _none(_no_name(wanted, managers))
    if not found:
        client.get(f"/jobs/{quote(wanted, safe='')}")  # raises when there is no such job
        _none(
            f"no task manager has log files of job {wanted}: it got no slots, they are gone, or there is no env.log.dir"
        )
    if suffixes == PRINTS:
        return found
    managing = _of_services(client, "jobmanager", (".log",))
    for source in managing:
        source.is_shared = True
    return found + managing


def _of_services(client: RestClient, wanted: str, suffixes: tuple[str, ...]) -> list[LogSource]:
    """By its id, or all of a role: a request is sent to each. One that has ended is known by the names of its files."""
    services = client.get("/jobmanagers")["jobmanagers"]
    shared = [source for source in _listed(client, "/jobmanager", suffixes) if _is_named(source.name, wanted)]
    here = {_host(one) for one in services if one["id"] == "dispatcher"}
    found = list(shared)
    for one in services:
        if wanted in (one["id"], one["role"]):
            known = {source.name for source in shared} if _host(one) in here else set()
            own = _listed(client, f"/jobmanagers/{quote(one['id'])}", suffixes)
            found += [source for source in own if source.name not in known]
    return found


def _host(service: dict[str, Any]) -> str:
    return str(service["address"]).rpartition(":")[0]


def _listed(client: RestClient, owner: str, suffixes: tuple[str, ...]) -> list[LogSource]:
    try:
        names = [str(file["name"]) for file in client.get(f"{owner}/logs")["logs"]]
    except RestError as error:
        if error.status == 404 or (error.status == 503 and owner.startswith("/jobmanagers/")):
            return []  # it has just gone
        raise
    return [LogSource(owner, name, chain_of(name, names)[1:]) for name in names if name.endswith(suffixes)]


def _is_named(name: str, wanted: str) -> bool:
    return wanted in (name.rpartition(".")[0], name.partition("-")[0])


def _no_task_manager(wanted: str, managers: Sequence[str]) -> str:
    if wanted in managers:
        return f"task manager {wanted} writes no log files: they go to its standard error, unless env.log.dir is set"
    known = ", ".join(managers) or "none"
    return f"no task manager {wanted} is registered; there are: {known}"


def _no_name(wanted: str, managers: Sequence[str]) -> str:
    known = ", ".join(managers) or "none is there"
    return (
        f"'{wanted}' is no job (`millstream list -a` shows them), no task manager ({known}, or by its name in"
        f" `millstream cluster status`), and none of {', '.join(SERVICES)}"
    )


def _none(reason: str) -> list[LogSource]:
    raise MillstreamError(reason)
