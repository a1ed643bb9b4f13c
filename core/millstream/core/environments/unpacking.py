"""Limits for unpacking artifacts: bytes, entries, and the ratio of unpacked to packed bytes.

The unpacked data is counted. The members' sizes in a zip file's directory are trusted, because `zipfile`, which pip
uses as well, never returns more of a member than the directory states; the size of the directory itself is checked
before it is read. For a tar file the decompressed stream is counted, headers included.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OPTIONS
from millstream.core.settings.options.submission import (
    PYTHON_UNPACK_MAX_ENTRIES,
    PYTHON_UNPACK_MAX_RATIO,
    PYTHON_UNPACK_MAX_SIZE,
)

if TYPE_CHECKING:
    import tarfile

_SMALL = 32 * 1024 * 1024  # repetitive text may have a high ratio without being harmful
_DIRECTORY_ENTRY = 256  # the size of an entry with a long name in a zip file's directory
_CHUNK = 1024 * 1024
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_SIZE = 20
_LONGEST_COMMENT = 65535


class UnpackLimitError(InvalidProgramError):
    """An artifact unpacks to more than is allowed."""


class UnpackLimits(Struct, frozen=True):
    """The limits of the options `python.unpack.*`."""

    size: int = OPTIONS[PYTHON_UNPACK_MAX_SIZE].default
    entries: int = OPTIONS[PYTHON_UNPACK_MAX_ENTRIES].default
    ratio: int = OPTIONS[PYTHON_UNPACK_MAX_RATIO].default

    @staticmethod
    def of(configuration: Configuration) -> UnpackLimits:
        """Reads the configured limits."""
        return UnpackLimits(
            configuration.get(PYTHON_UNPACK_MAX_SIZE),
            configuration.get(PYTHON_UNPACK_MAX_ENTRIES),
            configuration.get(PYTHON_UNPACK_MAX_RATIO),
        )


class UnpackBudget:
    """The remaining limits for one artifact. Every method raises UnpackLimitError when they are exceeded."""

    def __init__(self, name: str, packed: int, limits: UnpackLimits) -> None:
        self._name, self._limits = name, limits
        self._by_ratio = max(packed * limits.ratio, _SMALL)
        self._size = self._entries = 0
        self._stopped = False

    def stop(self) -> None:
        """Stops the unpacking: the next step raises. May be called from any thread."""
        self._stopped = True

    def check_stopped(self) -> None:
        """Raises after `stop`."""
        if self._stopped:
            raise self._refusal("no longer needed")

    def take(self, size: int) -> None:
        """Counts unpacked bytes."""
        self.check_stopped()
        self._size += size
        if self._size > self._limits.size:
            raise self._refusal(f"to more than {self._limits.size} bytes ({PYTHON_UNPACK_MAX_SIZE})")
        if self._size > self._by_ratio:
            raise self._refusal(f"to more than {self._limits.ratio} times its own size ({PYTHON_UNPACK_MAX_RATIO})")

    def entry(self, count: int = 1) -> None:
        """Counts unpacked entries."""
        self._entries += count
        if self._entries > self._limits.entries:
            raise self._refusal(f"to more than {self._limits.entries} files and folders ({PYTHON_UNPACK_MAX_ENTRIES})")

    def _refusal(self, reason: str) -> UnpackLimitError:
        return UnpackLimitError(f"{self._name} is refused: it unpacks {reason}")

    def copy(self, source: IO[bytes], sink: IO[bytes]) -> None:
        """Copies a member, and counts its bytes."""
        while data := source.read(_CHUNK):
            self.take(len(data))
            sink.write(data)

    def open_zip(self, path: Path) -> zipfile.ZipFile:
        """Opens a zip file, after checking the size of its directory."""
        if _directory_size(path) > self._limits.entries * _DIRECTORY_ENTRY:
            raise self._refusal(f"to more than {self._limits.entries} files and folders ({PYTHON_UNPACK_MAX_ENTRIES})")
        return zipfile.ZipFile(path)

    def take_zip(self, archive: zipfile.ZipFile) -> None:
        """Counts the whole content of a zip file, before another program unpacks it."""
        members = archive.infolist()
        self.entry(len(members))
        for member in members:
            self.take(member.file_size)

    def extract_tar(self, path: Path, target: Path) -> None:
        """Unpacks a tar file, compressed or not. Members outside the target raise tarfile.FilterError."""
        import tarfile  # 2 ms with its imports, and few jobs have archives

        with _decompressed(path) as stream:
            counted: Any = _Counted(stream, self)
            with tarfile.open(fileobj=counted, mode="r|") as tar:
                tar.extractall(target, members=self._each(tar), filter="data")

    def _each(self, members: Iterable[tarfile.TarInfo]) -> Iterator[tarfile.TarInfo]:
        for member in members:
            self.entry()
            if member.issparse():  # its holes are not in the archive, so reading does not count them
                self.take(member.size)
            yield member


class _Counted:
    """A stream whose reads are charged to the budget."""

    def __init__(self, stream: IO[bytes], budget: UnpackBudget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, size: int) -> bytes:
        """Reads, and counts the bytes."""
        data = self._stream.read(size)
        self._budget.take(len(data))
        return data


def _decompressed(path: Path) -> Any:
    import bz2
    import gzip
    import lzma

    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(path)
    if magic.startswith(b"BZh"):
        return bz2.open(path)
    if magic.startswith((b"\xfd7zXZ\0", b"\x5d\0\0")):
        return lzma.open(path)
    return path.open("rb")


def _directory_size(path: Path) -> int:
    """The size of a zip file's directory, from the end of the file; 0 when there is no such end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONGEST_COMMENT - _END.size - _LOCATOR_SIZE - _END64.size))
        tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + _END.size:
        return 0
    found = int(_END.unpack_from(tail, end)[5])
    end64 = end - _LOCATOR_SIZE - _END64.size
    if end64 >= 0 and tail[end - _LOCATOR_SIZE :].startswith(b"PK\x06\x07") and tail[end64:].startswith(b"PK\x06\x06"):
        found = int(_END64.unpack_from(tail, end64)[8])
    return found
