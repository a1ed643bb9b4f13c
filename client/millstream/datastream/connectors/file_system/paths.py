"""Which files a source reads: files, directories and patterns, listed in a fixed order."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from millstream.core.errors import InvalidProgramError
from millstream.datastream.connectors.errors import ConnectorError

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file and its size in bytes."""

    path: str
    size: int


def absolute(path: PathLike) -> str:
    """The path as every process of the job finds it; a `file:` address is one too."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise InvalidProgramError(f"a file path must be a non-empty text, got {path!r}")
    scheme, separator, _ = text.partition("://")
    if separator and scheme.isalnum():
        if scheme != "file":
            raise InvalidProgramError(f"{text}: the scheme '{scheme}' is not supported; use a local path or file://")
        text = unquote(urlsplit(text).path)
    return os.path.abspath(text)


def find_files(paths: Iterable[str], may_be_none: bool = False) -> list[FoundFile]:
    """Every file once, in the order of the paths and sorted within each.

    A path that does not exist is an error, and so is a pattern that matches nothing, unless there `may_be_none`.
    """
    found: dict[str, FoundFile] = {}
    for path in paths:
        if os.path.exists(path):
            matches = [path]
        elif glob.has_magic(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches and not may_be_none:
                raise ConnectorError(f"file source: no file matches {path}")
        else:
            raise ConnectorError(f"file source: {path} does not exist")
        for match in matches:
            for file in _walk(match):
                found.setdefault(file, FoundFile(file, _size(file)))
    return list(found.values())


def _walk(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    files: list[str] = []

    def refuse(error: OSError) -> None:
        raise ConnectorError(f"file source: {error.filename}: {error.strerror}") from error

    for directory, folders, names in os.walk(path, onerror=refuse):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        files.extend(os.path.join(directory, name) for name in sorted(names) if not _is_hidden(name))
    return files


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise ConnectorError(f"file source: {path}: {error.strerror}") from error
