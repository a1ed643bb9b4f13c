"""What a job ships by its options: `python.files`, `python.requirements`, `python.archives`, as in PyFlink.

Setters of the environment add to files and archives; requirements that it set itself stand in place of the option's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from millstream.core.jobs.graph import ArtifactKind
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import (
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_PYTHONPATH,
    PYTHON_REQUIREMENTS,
)
from millstream.datastream.graph.artifacts import LocalFile, local_file, local_packages, python_file


def with_configured_files(
    configuration: Configuration, own: Sequence[LocalFile], scratch: Path | None = None
) -> list[LocalFile]:
    """The files that the options name, and those that the program named itself. Folders are packed into `scratch`."""
    option = "python.files (-pyfs)"
    found = [python_file(path, option, scratch) for path in _parts(configuration.get(PYTHON_FILES))]
    if all(file.kind is not ArtifactKind.REQUIREMENTS for file in own):
        found += _requirements(configuration.get(PYTHON_REQUIREMENTS))
    for part in _parts(configuration.get(PYTHON_ARCHIVES)):
        path, _, target = part.partition("#")
        found.append(local_file(path, ArtifactKind.ARCHIVE, "python.archives (-pyarch)", target or None))
    return [*found, *own]


def configured_python_path(configuration: Configuration) -> tuple[str, ...]:
    """Where functions import from besides, on the hosts that they run on."""
    return tuple(path for path in configuration.get(PYTHON_PYTHONPATH).split(os.pathsep) if path)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _requirements(text: str) -> list[LocalFile]:
    if not text:
        return []
    option = "python.requirements (-pyreq)"
    path, _, packages = text.partition("#")
    file = local_file(path, ArtifactKind.REQUIREMENTS, option)
    return [file, *local_packages(packages, option)] if packages else [file]
