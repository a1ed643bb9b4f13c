"""Jobs as users name them: by an id, by the beginning of one, or by their names."""

from __future__ import annotations

import re
from typing import Any

import click

from millstream.cli.rest import RestClient
from millstream.cli.tables import moment
from millstream.core.errors import MillstreamError

_LEAST = 4  # letters of an id


def job_id_of(client: RestClient, name: str) -> str:
    """The job's id; raises when this is no id, and names no job or several."""
    if not name:
        raise click.UsageError("the job is empty: name it by its id, the beginning of it, or its name")
    found = _found(client, name)
    if found is None:
        raise MillstreamError(f"no job '{name}': it is neither the id nor the name of a job (`millstream list --all`)")
    return found


def job_named(client: RestClient, name: str) -> str:
    """The job's id. What names no job is returned as it is; raises when it names several."""
    return _found(client, name) or name


def _found(client: RestClient, name: str) -> str | None:
    """Of several with one name, one that has not ended is meant, or else the last."""
    if re.fullmatch("[0-9a-fA-F]{32}", name):
        return name.lower()
    if not name:
        return None
    jobs = sorted(client.get("/jobs/overview")["jobs"], key=lambda job: (job["end-time"] == -1, job["start-time"]))
    named = [job for job in jobs if job["name"] == name]
    running = [job for job in named if job["end-time"] == -1]
    begun = [job for job in jobs if len(name) >= _LEAST and str(job["jid"]).startswith(name.lower())]
    several = running if len(running) > 1 else begun if not named and len(begun) > 1 else []
    if several:
        candidates = ", ".join(map(_candidate, several))
        raise MillstreamError(f"'{name}' names several jobs; name one of them by its id: {candidates}")
    found = (named or begun)[-1:]
    return str(found[0]["jid"]) if found else None


def _candidate(job: dict[str, Any]) -> str:
    return f"{job['jid']} ({job['name']}, {job['state']}, started {moment(job['start-time'])})"
