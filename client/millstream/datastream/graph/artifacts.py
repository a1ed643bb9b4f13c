"""Files that a program ships with its job: identified by their content, uploaded by the executor."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Artifact, ArtifactKind


class LocalFile(Struct, frozen=True):
    """A file on the client's host, to be shipped."""

    path: Path
    kind: ArtifactKind

    def sha256(self) -> str:
        """Of the file as it is now."""
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InvalidProgramError(f"cannot ship {self.path}: {error.strerror or error}") from error


def local_file(path: str | os.PathLike[str], kind: ArtifactKind, method: str) -> LocalFile:
    """Checks that the file is there; `method` is the call that names it, for the error."""
    absolute = Path(path).expanduser().resolve()
    if absolute.is_dir():
        raise InvalidProgramError(f"{method}: {absolute} is a folder; pack it into a zip file or a wheel")
    if not absolute.is_file():
        raise InvalidProgramError(f"{method}: there is no file {absolute}")
    return LocalFile(absolute, kind)


def resolve_artifacts(
    uploaded: tuple[Artifact, ...], local: list[LocalFile]
) -> tuple[tuple[Artifact, ...], dict[str, str]]:
    """All artifacts of a job, each once, and where the executor finds those that are not uploaded yet."""
    artifacts = dict.fromkeys(uploaded)
    present = {artifact.sha256 for artifact in uploaded}
    paths: dict[str, str] = {}
    for file in local:
        digest = file.sha256()
        artifacts[Artifact(digest, file.path.name, file.kind)] = None
        if digest not in present:
            paths[digest] = str(file.path)
    return tuple(artifacts), paths
