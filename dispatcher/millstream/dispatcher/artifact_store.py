"""The artifacts of jobs on the dispatcher's disk: one file each, named after the sha256 of its content.

Several dispatchers of a host may share a folder, and none knows the others' jobs. So the time of a
file shows whether it is in use: each dispatcher renews it for the artifacts of its jobs, and deletes what no dispatcher
has renewed for long.

Where dispatchers share other storage than a folder, an artifact is there when it is in that, and the folder is what
this host has of it: filled when an artifact comes or is requested.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from pathlib import Path
from typing import BinaryIO

from millstream.core.environments.artifacts import CHUNK_SIZE, PARTIAL, ArtifactError, WholeFile, sha256_of
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.dispatcher.shared_artifacts import SharedArtifacts

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class ArtifactStore:
    """Keeps artifacts below `root`. A file there is whole and has the content that its name promises.

    Owned by the dispatcher's loop. Raises ArtifactError, and SnapshotError when shared storage fails.
    """

    def __init__(
        self, root: Path, max_size: int, max_total_size: int, shared: SharedArtifacts | None = None, kept: float = 0
    ) -> None:
        """`kept`: how many seconds this host keeps what it has of shared storage and does not need."""
        self._root = root
        self._max_size = max_size
        self._max_total_size = max_total_size
        self._shared = shared
        self._kept = kept
        self._fetching: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def has(self, sha256: str) -> bool:
        """Whether the artifact is there; then it stays long enough to submit a job with it."""
        return await asyncio.to_thread(self._has, sha256)

    def _has(self, sha256: str) -> bool:
        is_here = self._is_here(sha256)
        return is_here if self._shared is None else self._shared.has(sha256)

    def _is_here(self, sha256: str) -> bool:
        try:
            os.utime(self._path(sha256))
        except FileNotFoundError:
            return False
        return True

    async def clean(self, in_use: Iterable[str], unused_for: float) -> list[str]:
        """Deletes what has not been used for so many seconds, and returns it. What is in use counts as used now."""
        if self._shared is None:
            return await asyncio.to_thread(self._clean, in_use, unused_for)
        return await asyncio.to_thread(self._shared.clean, in_use, unused_for)

    def _clean(self, in_use: Iterable[str], unused_for: float) -> list[str]:
        for sha256 in in_use:
            self._is_here(sha256)
        oldest = time.time() - unused_for
        deleted = []
        for path in self._root.iterdir():
            with contextlib.suppress(OSError):  # another dispatcher has deleted it
                if (_SHA256.match(path.name) or path.name.startswith(PARTIAL)) and path.stat().st_mtime < oldest:
                    path.unlink()
                    deleted.append(path.name)
        return deleted

    def _total_size(self) -> int:
        if self._shared is not None:
            return self._shared.total_size()
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
        """Writes what comes and keeps it when it matches the hash of the artifact."""
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
        await asyncio.to_thread(self._share, artifact.sha256)

    def _share(self, sha256: str) -> None:
        """An artifact has come to this host: the others get it, and what this one does not need goes."""
        if self._shared is not None:
            self._shared.put(sha256, self._path(sha256))
            self._clean((sha256,), self._kept)

    async def read(self, sha256: str) -> AsyncGenerator[bytes, None]:
        """The artifact's content in pieces."""
        with await self._open(sha256) as file:
            while data := await asyncio.to_thread(file.read, CHUNK_SIZE):
                yield data

    async def _open(self, sha256: str) -> BinaryIO:
        """The artifact, which is fetched when this host does not have it. Raises ArtifactError when there is none."""
        path = self._path(sha256)
        try:
            async with self._fetching[sha256]:  # many requests come at once when a job starts
                if not await asyncio.to_thread(self._is_here, sha256) and self._shared is not None:
                    await asyncio.to_thread(self._clean, (), self._kept)
                    await asyncio.to_thread(self._shared.get, sha256, path)
                return await asyncio.to_thread(open, path, "rb")
        except FileNotFoundError as error:
            raise ArtifactError(f"no artifact with sha256 {sha256}; upload it first") from error
        finally:
            self._fetching.pop(sha256, None)

    async def adopt(self, path: Path, name: str, kind: ArtifactKind) -> Artifact:
        """Makes an artifact of a file on this host."""
        return await asyncio.to_thread(self._adopt, path, name, kind)

    def _adopt(self, path: Path, name: str, kind: ArtifactKind) -> Artifact:
        artifact = Artifact(sha256_of(path), name, kind)
        if not self._has(artifact.sha256):
            with WholeFile(self._path(artifact.sha256), artifact.sha256) as file, open(path, "rb") as source:
                while data := source.read(CHUNK_SIZE):
                    file.write(data)
                file.commit(name)
            self._share(artifact.sha256)
        return artifact

    async def copy(self, artifact: Artifact, path: Path) -> None:
        """Writes the artifact to a path; the `fetch` of job environments made by the dispatcher itself."""
        with await self._open(artifact.sha256) as source, await asyncio.to_thread(open, path, "wb") as target:
            await asyncio.to_thread(shutil.copyfileobj, source, target)
