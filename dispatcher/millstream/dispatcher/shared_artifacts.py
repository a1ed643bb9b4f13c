"""The artifacts of jobs in storage that all dispatchers share and no host has as a folder: object stores, HDFS.

An artifact is a file named after the sha256 of its content. Such storage cannot renew the time of a file, so a
small one beside it is written instead, and an artifact was used last when the younger of the two was written. Times
are those of the storage's clock: how long artifacts are kept is much longer than clocks differ.

The calls block, and may come from any thread; they raise ArtifactError, and SnapshotError when storage fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from millstream.core.environments.artifacts import CHUNK_SIZE, ArtifactError, WholeFile
from millstream.core.snapshot.errors import MissingFileError, SnapshotError
from millstream.core.snapshot.storage.uri_files import StoredFile, UriFiles

_USED = ".used"


class SharedArtifacts:
    """Below the root of `files`. The content of a file is checked when it is read: storage is not trusted with it."""

    def __init__(self, files: UriFiles) -> None:
        self._files = files

    def check(self) -> None:
        """Raises SnapshotError when nothing can be stored there, as without the bucket."""
        self._files.create_folder(self._files.root, private=True)

    def has(self, sha256: str) -> bool:
        """Whether the artifact is there; if so, it counts as used now."""
        if not self._files.exists(self._uri(sha256)):
            return False
        self._files.write_whole(self._uri(sha256 + _USED), b"used\n", private=True)
        return True

    def put(self, sha256: str, path: Path) -> None:
        """Returns when the file's content is there, whole."""
        try:
            self._files.copy_whole(str(path), self._uri(sha256))
        except SnapshotError:
            if not self._files.exists(self._uri(sha256)):  # else another dispatcher was faster
                raise

    def get(self, sha256: str, path: Path) -> None:
        """Writes the artifact to a local path: whole and with the right content, or not at all."""
        with WholeFile(path, sha256) as file:
            try:
                for data in self._files.pieces(self._uri(sha256), CHUNK_SIZE):
                    file.write(data)
            except MissingFileError as error:
                raise ArtifactError(f"no artifact with sha256 {sha256}; upload it first") from error
            file.commit(self._uri(sha256))

    def clean(self, in_use: Iterable[str], unused_for: float) -> list[str]:
        """Deletes what has not been used for so many seconds, and returns it. What is in use counts as used now."""
        self._files.sweep(self._files.root, timedelta(seconds=unused_for))
        for sha256 in in_use:
            self.has(sha256)
        oldest = datetime.now(UTC) - timedelta(seconds=unused_for)
        artifacts: dict[str, list[StoredFile]] = defaultdict(list)
        for file in self._files.listing(self._files.root):
            artifacts[file.name.removesuffix(_USED)].append(file)
        unused = [name for name, files in artifacts.items() if all(file.written < oldest for file in files)]
        for name in unused:
            for file in sorted(artifacts[name], key=lambda file: file.name):  # the artifact goes before its time does
                self._files.delete_file(self._uri(file.name))
        return unused

    def total_size(self) -> int:
        """In bytes, of all that is there."""
        return sum(file.size for file in self._files.listing(self._files.root))

    def _uri(self, name: str) -> str:
        return f"{self._files.root}/{name}"
