"""The artifacts of jobs on the dispatcher's disk: one file each, named after the sha256 of its content.

Several dispatchers of a host may share a folder, and none knows the others' jobs. So what is in use is said by a file's
time: each dispatcher renews it for the artifacts of its jobs, and deletes what nobody has renewed for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from pathlib import Path

from millstream.core.environments.artifacts import CHUNK_SIZE, PARTIAL, ArtifactError, WholeFile, sha256_of
from millstream.core.jobs.graph import Artifact, ArtifactKind

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class ArtifactStore:
    """Keeps artifacts below `root`. A file there is whole and has the content that its name promises."""

    def __init__(self, root: Path, max_size: int, max_total_size: int) -> None:
        self._root = root
        self._max_size = max_size
        self._max_total_size = max_total_size

    def path(self, sha256: str) -> Path:
        """Where the artifact is. Raises ArtifactError when it is not there."""
        path = self._path(sha256)
        if not path.exists():
            raise ArtifactError(f"no artifact with sha256 {sha256}; upload it first")
        return path

    def has(self, sha256: str) -> bool:
        """Whether the artifact is there; then it stays long enough to submit a job with it."""
        try:
            os.utime(self._path(sha256))
        except FileNotFoundError:
            return False
        return True

    def clean(self, in_use: Iterable[str], unused_for: float) -> list[str]:
        """Deletes what nobody has used for so many seconds, and answers it. What is in use counts as used now."""
        for sha256 in in_use:
            self.has(sha256)
        oldest = time.time() - unused_for
        deleted = []
        for path in self._root.iterdir():
            with contextlib.suppress(OSError):  # another dispatcher has deleted it
                if (_SHA256.match(path.name) or path.name.startswith(PARTIAL)) and path.stat().st_mtime < oldest:
                    path.unlink()
                    deleted.append(path.name)
        return deleted

    def _total_size(self) -> int:
        total = 0
        for path in self._root.iterdir():
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                total += path.stat().st_size
        return total

    def _path(self, sha256: str) -> Path:
        if not _SHA256.match(sha256):
            raise ArtifactError(f"'{sha256[:80]}' is not a sha256 in hexadecimal")
        return self._root / sha256

    async def store(self, artifact: Artifact, chunks: AsyncIterator[bytes]) -> None:
        """Writes what comes and keeps it when it is what the artifact says. Raises ArtifactError."""
        taken = await asyncio.to_thread(self._total_size)
        with WholeFile(self._path(artifact.sha256), artifact.sha256) as file:
            async for data in chunks:
                if taken + file.size + len(data) > self._max_total_size:
                    raise ArtifactError(
                        f"with {artifact.name}, the artifacts of jobs would take more than "
                        f"dispatcher.artifacts.max-total-size allows ({self._max_total_size} bytes); those that no job "
                        "needs go after dispatcher.artifacts.retention"
                    )
                if file.size + len(data) > self._max_size:
                    raise ArtifactError(f"{artifact.name} is larger than web.upload.max-size ({self._max_size} bytes)")
                await asyncio.to_thread(file.write, data)
            await asyncio.to_thread(file.commit, artifact.name)

    async def read(self, sha256: str) -> AsyncGenerator[bytes, None]:
        """The artifact's content in pieces."""
        with await asyncio.to_thread(open, self.path(sha256), "rb") as file:
            while data := await asyncio.to_thread(file.read, CHUNK_SIZE):
                yield data

    async def adopt(self, path: Path, name: str, kind: ArtifactKind) -> Artifact:
        """Makes an artifact of a file on this host."""
        return await asyncio.to_thread(self._adopt, path, name, kind)

    def _adopt(self, path: Path, name: str, kind: ArtifactKind) -> Artifact:
        artifact = Artifact(sha256_of(path), name, kind)
        if not self.has(artifact.sha256):
            with WholeFile(self._path(artifact.sha256), artifact.sha256) as file, open(path, "rb") as source:
                while data := source.read(CHUNK_SIZE):
                    file.write(data)
                file.commit(name)
        return artifact

    async def copy(self, artifact: Artifact, path: Path) -> None:
        """Writes the artifact to a path; the `fetch` of job environments made by the dispatcher itself."""
        await asyncio.to_thread(shutil.copyfile, self.path(artifact.sha256), path)
