"""Transfer of artifacts between clients, the dispatcher's store and the hosts that run a job; and a wheel's metadata.

An artifact is identified by the sha256 of its content. Transfers are verified, and a file appears under its name only
when it is complete.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import grpc
from msgspec import Struct

from millstream.core.environments.unpacking import UnpackBudget, UnpackLimits
from millstream.core.errors import InvalidProgramError, MillstreamError
from millstream.core.files.directories import make_private
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.messages.dispatcher import ArtifactChunk, ArtifactRequest
from millstream.core.services.rpc import Stub, explain
from millstream.core.wire.contracts import DISPATCHER

ENTRY_POINT_GROUP = "millstream.jobs"
CHUNK_SIZE = 1024 * 1024
PARTIAL = ".partial-"
"""The prefix of the names of incomplete files."""
_WHEEL_NAME = re.compile(r"[A-Za-z0-9](?:[\w.]*)-[^-]+(?:-\d[^-]*)?-[\w.]+-[\w.]+-[\w.]+\.whl\Z")
_METADATA_LIMIT = 16 * 1024 * 1024
# The errors of zipfile for files that are damaged, encrypted, or compressed with an unknown method.
UNREADABLE_ZIP = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, LookupError,
)  # fmt: skip


class ArtifactError(MillstreamError):
    """An artifact could not be transferred, or does not match its description."""


class WheelTooLargeError(InvalidProgramError):
    """A wheel is over `web.upload.max-size`."""


class WheelInfo(Struct, frozen=True):
    """The metadata of a wheel. `entry_points` are `name -> pkg.module:callable` of the group for jobs.

    `modules` are the names at its root that can be imported.
    """

    name: str
    version: str
    entry_points: dict[str, str]
    modules: frozenset[str] = frozenset()

    def entry(self, wanted: str | None = None) -> str:
        """Returns the `pkg.module:callable` to run: the wanted one or that of this name, else the wheel's only one."""
        if wanted and wanted in self.entry_points:
            return self.entry_points[wanted]
        if wanted and re.fullmatch(r"[\w.]+:[\w.]+", wanted):
            return wanted
        if wanted and re.fullmatch(r"[\w.]+", wanted) and ("." in wanted or wanted in self.modules):
            return f"{wanted}:main"
        if wanted:
            known = entry_points_text(self.entry_points)
            raise InvalidProgramError(f"'{wanted}' is not an entry point of {self.name} {self.version}: {known}")
        if len(self.entry_points) == 1:
            return next(iter(self.entry_points.values()))
        if self.entry_points:
            raise InvalidProgramError(
                f"{self.name} {self.version} has several entry points: {entry_points_text(self.entry_points)}"
            )
        raise InvalidProgramError(
            f"{self.name} {self.version} names no entry point: add one to the group '{ENTRY_POINT_GROUP}' in its"
            " project file, or name it when running the wheel (-c package.module:main, entryClass over REST)"
        )


def entry_points_text(entry_points: Mapping[str, str]) -> str:
    """Lists the entry points, and how to select one."""
    listed = ", ".join(f"{name} ({target})" for name, target in sorted(entry_points.items()))
    choice = f"there are {listed}; choose one by name" if listed else "it names none; write one as package.module:main"
    return f"{choice} (-c on the command line, entryClass over REST)"


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Returns the digest of a file's content, in hexadecimal. Reads it in chunks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def validate_wheel(path: Path, max_size: int, name: str | None = None, limits: UnpackLimits | None = None) -> WheelInfo:
    """Checks that a file is a wheel that can be used, without unpacking it. Raises InvalidProgramError with the reason.

    `name` is the file name to validate and to use in messages, if the file is stored under another one.
    """
    shown = name or path.name
    size = path.stat().st_size
    if size > max_size:
        raise WheelTooLargeError(f"{shown} has {size} bytes, more than web.upload.max-size allows ({max_size})")
    if not _WHEEL_NAME.fullmatch(shown):
        raise InvalidProgramError(f"{shown} is not a wheel: expected a name like job-1.0-py3-none-any.whl")
    try:
        budget = UnpackBudget(shown, size, limits or UnpackLimits())
        with budget.open_zip(path) as archive:
            budget.take_zip(archive)
            return _inspect(archive, shown)
    except UNREADABLE_ZIP as error:
        raise InvalidProgramError(f"{shown} is not a wheel: it is not a readable zip file ({error})") from error


def _inspect(archive: zipfile.ZipFile, shown: str) -> WheelInfo:
    from email.parser import HeaderParser  # 4 ms, and few programs need it

    info = None
    for member in archive.namelist():
        parts = PurePosixPath(member.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or re.match(r"[A-Za-z]:", member):
            raise InvalidProgramError(f"{shown} is refused: its member {member!r} points outside of the wheel")
        if len(parts.parts) == 2 and parts.parts[0].endswith(".dist-info") and parts.name == "METADATA":
            info = parts.parts[0]
    members = set(archive.namelist())
    if info is None or f"{info}/WHEEL" not in members:
        raise InvalidProgramError(f"{shown} is not a wheel: it has no .dist-info folder with METADATA and WHEEL")
    headers = HeaderParser().parsestr(_text(archive, f"{info}/METADATA", shown))
    name, version = headers.get("Name"), headers.get("Version")
    if not name or not version:
        raise InvalidProgramError(f"{shown} is not a wheel: its METADATA has no Name or no Version")
    entry_points: dict[str, str] = {}
    if f"{info}/entry_points.txt" in members:
        entry_points = _entry_points(_text(archive, f"{info}/entry_points.txt", shown), shown)
    return WheelInfo(name, version, entry_points, frozenset(_modules(members)))


def _modules(members: Iterable[str]) -> Iterator[str]:
    for member in members:
        first, *rest = PurePosixPath(member).parts or ("",)
        name = first if rest else first.partition(".")[0]
        if name.isidentifier():
            yield name


def _text(archive: zipfile.ZipFile, member: str, shown: str) -> str:
    if archive.getinfo(member).file_size > _METADATA_LIMIT:
        raise InvalidProgramError(f"{shown} is refused: its {member} is larger than any real one")
    return archive.read(member).decode(errors="replace")


def _entry_points(text: str, shown: str) -> dict[str, str]:
    """Returns the entry points of the group for jobs, or an entry named `millstream` in any group."""
    from configparser import ConfigParser, Error  # 1 ms, as above

    parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    try:
        parser.read_string(text)
    except Error as error:
        reason = error.message.splitlines()[0]
        raise InvalidProgramError(f"{shown}: its entry_points.txt is malformed: {reason}") from error
    if parser.has_section(ENTRY_POINT_GROUP):
        found = dict(parser.items(ENTRY_POINT_GROUP))
    else:
        found = {k: v for group in parser.sections() for k, v in parser.items(group) if k == "millstream"}
    return {key: value.partition("[")[0].strip() for key, value in found.items()}


async def upload_artifact(channel: grpc.aio.Channel, path: str | os.PathLike[str], kind: ArtifactKind) -> Artifact:
    """Sends a file to the dispatcher, unless it has it. Raises ArtifactError with the dispatcher's reason."""
    path = Path(path)
    try:
        artifact = Artifact(await asyncio.to_thread(sha256_of, path), path.name, kind)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    stub = Stub(channel, DISPATCHER)
    try:
        if (await stub.has_artifact(ArtifactRequest(artifact.sha256))).present:
            return artifact
        await stub.upload_artifact(_chunks(artifact, path))
    except grpc.RpcError as error:
        raise ArtifactError(f"cannot upload {path.name}: {explain(error)}") from error
    return artifact


async def _chunks(artifact: Artifact, path: Path) -> AsyncIterator[ArtifactChunk]:
    yield ArtifactChunk(artifact)
    with await asyncio.to_thread(open, path, "rb") as file:
        while data := await asyncio.to_thread(file.read, CHUNK_SIZE):
            yield ArtifactChunk(data=data)


async def download_artifact(channel: grpc.aio.Channel, artifact: Artifact, path: Path) -> None:
    """Downloads an artifact to a path. The file appears only when it is complete and verified."""
    stub = Stub(channel, DISPATCHER)
    with WholeFile(path, artifact.sha256) as file:
        try:
            async for chunk in stub.download_artifact(ArtifactRequest(artifact.sha256)):
                await asyncio.to_thread(file.write, chunk.data)
        except grpc.RpcError as error:
            raise ArtifactError(f"cannot fetch {artifact.name}: {explain(error)}") from error
        await asyncio.to_thread(file.commit, artifact.name)


class WholeFile:
    """Writes a file under a temporary name, and deletes it at the end unless `commit` has verified its content."""

    def __init__(self, path: Path, sha256: str) -> None:
        self.size = 0
        self._path = path
        self._sha256 = sha256
        self._digest = hashlib.sha256()
        make_private(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL)
        self._temporary = Path(temporary)
        self._file: BinaryIO = os.fdopen(handle, "wb")

    def __enter__(self) -> WholeFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Appends."""
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def commit(self, name: str) -> None:
        """Moves the file to its path. Raises ArtifactError, which names the artifact, if the content differs."""
        if self._digest.hexdigest() != self._sha256:
            raise ArtifactError(f"{name} arrived damaged: its sha256 is {self._digest.hexdigest()}, not {self._sha256}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self._path)
