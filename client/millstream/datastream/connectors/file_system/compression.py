"""Compressed files, by the ends of their names: read as what they were, from the beginning to any place.

They cannot be cut. Going back in one means to begin again, so nothing but error messages does it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, cast

from millstream.datastream.connectors.errors import ConnectorError

DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""The exceptions of a compressed file that is damaged or truncated."""
_INPUT = 1 << 16


class _Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


def is_compressed(path: str) -> bool:
    """Whether the file is read as a compressed one."""
    return path.endswith(tuple(_OPENERS))


def open_bytes(path: str) -> BinaryIO:
    """The file's uncompressed bytes."""
    opener = next((opener for ending, opener in _OPENERS.items() if path.endswith(ending)), None)
    try:
        return open(path, "rb") if opener is None else cast(BinaryIO, opener(path))
    except OSError as error:
        raise ConnectorError(f"file source: {path}: {error.strerror or error}") from error


class _Restartable(io.RawIOBase):
    """What can only be read forwards, as a file in which one may go to any place."""

    def __init__(self, start: Callable[[], _Bytes]) -> None:
        self._start = start
        self._source = start()
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._source.read(len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        target = offset if whence == io.SEEK_SET else self._position + offset
        if target < self._position:
            self._source.close()
            self._source, self._position = self._start(), 0
        while self._position < target and (data := self._source.read(min(target - self._position, _INPUT))):
            self._position += len(data)
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


class _Inflated:
    """What zlib wrote: the streams in a `.deflate` file, one after another."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115  # closed by close
        self._inflater = zlib.decompressobj()
        self._begun = False

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while True:
            data = self._inflater.unconsumed_tail or self._inflater.unused_data or self._file.read(_INPUT)
            if self._inflater.eof:
                if not data:
                    return b""
                self._inflater, self._begun = zlib.decompressobj(), False
            if not data and self._begun:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            if not data:
                return b""
            self._begun = True
            if found := self._inflater.decompress(data, size):
                return found

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class _Zstandard:
    """By Arrow, which has the library with it; its errors are those of a damaged file."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        self._errors = pa.ArrowException
        self._stream = pa.CompressedInputStream(pa.OSFile(path, "rb"), "zstd")

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        try:
            return cast(bytes, self._stream.read(size))
        except self._errors as error:
            raise OSError(" ".join(str(error).split())) from error

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()


def _restartable(start: Callable[[str], _Bytes]) -> Callable[[str], BinaryIO]:
    return lambda path: cast(BinaryIO, io.BufferedReader(_Restartable(lambda: start(path))))


_OPENERS: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.GzipFile,
    ".gzip": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".deflate": _restartable(_Inflated),
    ".zst": _restartable(_Zstandard),
    ".zstd": _restartable(_Zstandard),
}
