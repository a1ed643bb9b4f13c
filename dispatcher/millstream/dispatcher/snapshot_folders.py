"""Which snapshots may be read over REST: those in the directories that the cluster and its jobs keep them in.

And savepoints that were requested from this dispatcher, wherever they are.

Never any other file of the machine, or of a store: a path is taken as what it means, with links and `..` resolved,
before it is compared. The directories of jobs count, since the user who submits one has its code run anyway.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from millstream.core.jobs.details import JobDetails
from millstream.core.settings.options.execution import CHECKPOINTING_DIR, CHECKPOINTING_SAVEPOINT_DIR
from millstream.core.settings.options.services import HA_STORAGE_DIR
from millstream.core.snapshot.storage.storage import location_of
from millstream.core.snapshot.storage.uri_files import plain_uri, with_options_of

_DIRECTORIES = (
    CHECKPOINTING_DIR,
    CHECKPOINTING_SAVEPOINT_DIR,
    HA_STORAGE_DIR,
)


def allowed_directories(options: Mapping[str, str], jobs: Iterable[JobDetails]) -> list[str]:
    """With the credentials that they were given with."""
    found = [options.get(name, "") for name in _DIRECTORIES]
    for job in jobs:
        found += [job.configuration.get(name, "") for name in _DIRECTORIES[:2]]
        found.append(job.checkpoint_directory)
    return list(dict.fromkeys(directory for directory in found if directory))


class TakenSnapshots:
    """The last snapshots that were requested, by the folders that they were written to.

    A folder that is replaced by a link later leads to nothing that could not be seen before.
    """

    def __init__(self, most: int = 1000) -> None:
        self._most = most
        self._folders: dict[str, None] = {}

    def add(self, location: str) -> None:
        """One that is complete."""
        with contextlib.suppress(ValueError):
            self._folders[_meant(location_of(location))] = None
            if len(self._folders) > self._most:
                del self._folders[next(iter(self._folders))]

    def has(self, meant: str) -> bool:
        """Whether it is one of them, or a file of one."""
        return meant in self._folders or meant.rpartition("/")[0] in self._folders


def pointer_within(location: str, directories: Iterable[str], taken: TakenSnapshots | None = None) -> str | None:
    """How a snapshot at this location is opened, with the credentials of its directory; None: it may not be seen."""
    try:
        wanted = _meant(location_of(location))
        inside = [d for d in directories if wanted.startswith(f"{_meant(location_of(d.partition('?')[0]))}/")]
    except ValueError:  # no path, or no URI
        return None
    innermost, plain = max(inside, key=len, default=None), location_of(location.partition("?")[0])
    if innermost is None:
        return plain if taken is not None and taken.has(wanted) else None
    return with_options_of(innermost, plain)


def _meant(location: str) -> str:
    """The absolute URI that a location is in the end, without credentials and options."""
    if "\0" in location:
        raise ValueError("no path has a zero in it")
    uri = plain_uri(location.partition("?")[0])
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme == "file":
        return f"file://{os.path.realpath(path)}"
    if any(part in ("..", ".") for part in path.split("/")):
        raise ValueError("a path in a store has no way back")
    return f"{parts.scheme}://{parts.netloc}{path}"
