"""The files of data that a job's sources ship beside the graph, from when they are written until their removal."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from millstream.core.environments.data_files import DataFile
from millstream.core.jobs.graph import Artifact, ArtifactKind


@functools.cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """One for the process, removed with all that is left in it when the process ends."""
    return tempfile.TemporaryDirectory(prefix="millstream-data-")


def _folder() -> Path:
    return Path(_directory().name)


class ShippedData:
    """Of one job."""

    def __init__(self) -> None:
        self._files: list[DataFile] = []

    def take(self, source: Any) -> Any:
        """A source as it goes into the graph; its files are kept track of here."""
        changed, files = source.shipped(_folder)
        self._files += files
        return changed

    def artifacts(self) -> list[Artifact]:
        """Each content once."""
        return [Artifact(sha256, f"data-{sha256[:8]}", ArtifactKind.DATA) for sha256 in self.paths()]

    def paths(self) -> dict[str, str]:
        """Where they are, by sha256."""
        return {file.sha256: file.path for file in self._files}

    def remove(self) -> None:
        """Removes the files."""
        for file in self._files:
            Path(file.path).unlink(missing_ok=True)
