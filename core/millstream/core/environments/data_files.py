"""Data that a program sends in addition to its job graph, such as a large collection: files identified by content.

The client writes them and uploads them as artifacts to the dispatcher. A task that needs one reads the client's file if
it is on the same host, otherwise it downloads it into an unnamed file, which leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from msgspec import Struct

from millstream.core.files.directories import work_directory
from millstream.core.settings.configuration import Configuration


class DataFile(Struct, frozen=True):
    """A data file; `path` is where the client wrote it temporarily, on its own host."""

    sha256: str
    path: str
    size: int


class DataOrigin:
    """The dispatcher from which tasks of this process download data."""

    def __init__(self) -> None:
        self._address = ""
        self._configuration = Configuration()

    def set(self, address: str, configuration: Configuration) -> None:
        """Called once by a worker's main."""
        self._address, self._configuration = address, configuration

    def open(self, file: DataFile) -> BinaryIO:
        """Opens the file for reading. Blocks while it is downloaded; raises ArtifactError."""
        try:
            opened = open(file.path, "rb")  # noqa: SIM115  # the caller closes it
            if opened.seek(0, 2) == file.size:
                opened.seek(0)
                return opened
            opened.close()
        except OSError:
            pass  # the client is on another host, or has ended
        fetching = ThreadPoolExecutor(1, thread_name_prefix="millstream data")
        try:
            return fetching.submit(asyncio.run, self._fetch(file)).result()
        finally:
            fetching.shutdown(wait=False)  # an interrupted task does not wait for it

    async def _fetch(self, file: DataFile) -> BinaryIO:
        import grpc  # imported here: programs import this module, and few have such data

        from millstream.core.environments.artifacts import ArtifactError
        from millstream.core.messages.dispatcher import ArtifactRequest
        from millstream.core.services.rpc import Stub, channel_for_calls, explain
        from millstream.core.wire.contracts import DISPATCHER

        if not self._address:
            raise ArtifactError(f"the data file {file.path} no longer exists")
        digest = hashlib.sha256()
        target = tempfile.TemporaryFile(dir=work_directory(self._configuration, "data"))  # noqa: SIM115  # as above
        try:
            async with channel_for_calls(self._address, self._configuration) as channel:
                stub = Stub(channel, DISPATCHER)
                async for chunk in stub.download_artifact(ArtifactRequest(file.sha256)):
                    digest.update(chunk.data)
                    target.write(chunk.data)
            if digest.hexdigest() != file.sha256:
                raise ArtifactError(f"data of the job arrived damaged from {self._address}: its sha256 differs")
            target.seek(0)
        except grpc.RpcError as error:
            target.close()
            raise ArtifactError(f"cannot fetch data of the job from {self._address}: {explain(error)}") from error
        except BaseException:
            target.close()
            raise
        return target


ORIGIN = DataOrigin()
