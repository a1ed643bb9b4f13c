"""The files of a folder that are sent with a job, found within bounds however large the folder is."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from itertools import accumulate, islice
from pathlib import Path

from msgspec import Struct

from millstream.client.ignore_rules import IgnoreRules
from millstream.core.errors import MillstreamError

IGNORE_FILE = ".millstreamignore"
MOST_FILES = 2_000
MOST_ENTRIES = 20_000  # scanned, whether they are sent or not: a scan takes a second or so at most


class FolderTooLargeError(MillstreamError):
    """The folder is not one program's."""


class FoundFiles(Struct, frozen=True):
    """Paths relative to the folder, in order, and those left out for their size, with it."""

    paths: tuple[str, ...]
    too_large: tuple[tuple[str, int], ...]


def scan(folder: Path, max_size: int, only: frozenset[str] | None = None) -> FoundFiles:
    """Walks the folder breadth first, through links too, but into no folder from within itself.

    `only` are names in the folder itself: nothing else is looked at. A file over a fifth of the bound is left out: it
    is data. Raises FolderTooLargeError when the others together are over it, or are too many.
    """
    rules = _rules(folder)
    found: list[str] = []
    too_large: list[tuple[str, int]] = []
    top = os.path.realpath(folder)
    pending: deque[tuple[str, tuple[str, ...]]] = deque([("", ())])  # with the folders that lead to it
    total = entries = 0
    while pending:
        inside, above = pending.popleft()
        real = os.path.realpath(folder / inside)
        if real in above or (inside and top.startswith(os.path.join(real, ""))):
            continue
        own = os.path.relpath(real, top) if inside and real.startswith(os.path.join(top, "")) else inside
        is_linked = own != inside  # to a folder of the program, where what is left out is so by any name
        if is_linked and any(rules.leaves_out(part, True) for part in accumulate(own.split("/"), "{}/{}".format)):
            continue
        for name, mode, size in _listed(folder / inside, None if inside else only):
            entries += 1
            if entries > MOST_ENTRIES:
                raise FolderTooLargeError(f"it has more than {MOST_ENTRIES} entries")
            path = f"{inside}/{name}" if inside else name
            is_folder = stat.S_ISDIR(mode)
            if rules.leaves_out(path, is_folder) or (is_linked and rules.leaves_out(f"{own}/{name}", is_folder)):
                continue
            if is_folder:
                if not _is_not_the_programs(folder / path):
                    pending.append((path, (*above, real)))
            elif stat.S_ISREG(mode) and size > max_size // 5:
                too_large.append((path, size))
            elif stat.S_ISREG(mode) and os.access(folder / path, os.R_OK):
                found.append(path)
                total += size
                if total > max_size or len(found) > MOST_FILES:
                    what = f"{max_size} bytes" if total > max_size else f"{MOST_FILES} files"
                    raise FolderTooLargeError(f"it has more than {what} to send")
    return FoundFiles(tuple(sorted(found)), tuple(sorted(too_large)))


def _rules(folder: Path) -> IgnoreRules:
    try:
        return IgnoreRules((folder / IGNORE_FILE).read_text(errors="replace").splitlines())
    except OSError:
        return IgnoreRules()


def _listed(folder: Path, only: frozenset[str] | None) -> list[tuple[str, int, int]]:
    """Names, modes and sizes; at most `MOST_ENTRIES`. What cannot be read is not there."""
    listed: list[tuple[str, int, int]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = islice((entry.name for entry in entries), MOST_ENTRIES + 1) if only is None else only
        for name in names:
            with contextlib.suppress(OSError):  # a link that leads nowhere
                status = os.stat(folder / name)
                listed.append((name, status.st_mode, status.st_size))
    return sorted(listed)


def _is_not_the_programs(folder: Path) -> bool:
    """Whether it is a virtual environment, or the folder of a local cluster, with its credentials and logs."""
    if (folder / "pyvenv.cfg").exists():
        return True
    return (folder / "conf" / "config.yaml").exists() and (folder / "run").is_dir() and (folder / "log").is_dir()
