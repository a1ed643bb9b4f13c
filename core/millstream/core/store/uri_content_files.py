"""Files of contents in any storage for checkpoints: `s3://`, `hdfs://`, `gs://`.

An object appears under its name when it is complete; in other storage a file is written under a temporary name first,
and files that a crash leaves are deleted once they are old enough not to be in use.
"""

from __future__ import annotations

from datetime import timedelta

from millstream.core.snapshot.errors import MissingFileError
from millstream.core.snapshot.storage.uri_files import UriFiles

_NOBODY_WRITES_FOR = timedelta(days=1)


class UriContentFiles:
    """`ContentFiles` below the root of `files`."""

    def __init__(self, files: UriFiles) -> None:
        self._files = files
        self._is_swept = False

    def where(self, name: str) -> str:
        """See `ContentFiles`. Without credentials."""
        return f"{self._files.root}/{name}"

    def write(self, name: str, raw: bytes) -> None:
        """See `ContentFiles`."""
        if not self._is_swept:
            self._files.sweep(self._files.root, _NOBODY_WRITES_FOR)
            self._is_swept = True
        self._files.write_whole(self.where(name), raw, private=True)

    def read(self, name: str) -> bytes | None:
        """See `ContentFiles`."""
        try:
            return bytes(self._files.read(self.where(name)))
        except MissingFileError:
            return None

    def delete(self, name: str) -> None:
        """See `ContentFiles`."""
        self._files.delete_file(self.where(name))
