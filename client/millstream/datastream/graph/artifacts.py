"""Files that a program ships with its job: identified by their content, uploaded by the executor."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Artifact, ArtifactKind

_IMPORTED = (".py", ".zip", ".whl", ".egg")  # that `python` takes from a path


class LocalFile(Struct, frozen=True):
    """A file on the client's host, to be shipped."""

    path: Path
    kind: ArtifactKind
    target: str = ""
    """Its name in the tasks' working directory; empty: its own name."""

    @property
    def name(self) -> str:
        """The name of the artifact, followed by its target if it has one."""
        return f"{self.path.name}#{self.target}" if self.target else self.path.name

    def sha256(self) -> str:
        """Returns the digest of the file as it is now."""
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InvalidProgramError(f"cannot ship {self.path}: {error.strerror or error}") from error


def local_file(path: str | os.PathLike[str], kind: ArtifactKind, method: str, target: str | None = None) -> LocalFile:
    """Checks that the file is there; `method` is the call that names it, for the error."""
    if target is not None:
        parts = PurePosixPath(target).parts
        if not parts or PurePosixPath(target).is_absolute() or ".." in parts or "#" in target:
            raise InvalidProgramError(
                f"{method}: {target!r} is no name inside of the tasks' working directory: expected a relative path"
            )
    absolute = Path(path).expanduser().resolve()
    if absolute.is_dir():
        raise InvalidProgramError(f"{method}: {absolute} is a folder; pack it into a zip file or a wheel")
    if not absolute.is_file():
        raise InvalidProgramError(f"{method}: there is no file {absolute}")
    return LocalFile(absolute, kind, target or "")


def python_file(path: str | os.PathLike[str], method: str, scratch: Path | None = None) -> LocalFile:
    """A file for the import path, or a folder, whose content is: it is packed, into `scratch` if that is given."""
    absolute = Path(path).expanduser().resolve()
    if absolute.is_dir():
        from millstream.datastream.graph.packed_folders import packed

        absolute = packed(absolute, scratch)
    elif absolute.is_file() and absolute.suffix not in _IMPORTED:
        raise InvalidProgramError(f"{method}: {absolute}: expected a .py, .zip or .whl file, or a folder")
    return local_file(absolute, ArtifactKind.PYTHON_FILE, method)


def local_packages(folder: str | os.PathLike[str], method: str) -> list[LocalFile]:
    """The files of a folder that requirements are installed from, as `pip download` fills it."""
    absolute = Path(folder).expanduser().resolve()
    if not absolute.is_dir():
        raise InvalidProgramError(f"{method}: there is no folder {absolute}")
    files = sorted(file for file in absolute.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise InvalidProgramError(f"{method}: the folder {absolute} holds no packages; fill it with `pip download`")
    return [LocalFile(file, ArtifactKind.PACKAGE) for file in files]


def resolve_artifacts(
    uploaded: tuple[Artifact, ...], local: list[LocalFile]
) -> tuple[tuple[Artifact, ...], dict[str, str]]:
    """All artifacts of a job, each once, and where the executor finds those that are not uploaded yet."""
    artifacts = dict.fromkeys(uploaded)
    present = {artifact.sha256 for artifact in uploaded}
    paths: dict[str, str] = {}
    for file in local:
        digest = file.sha256()
        artifacts[Artifact(digest, file.name, file.kind)] = None
        if digest not in present:
            paths[digest] = str(file.path)
    return tuple(artifacts), paths
