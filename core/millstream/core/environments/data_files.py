"""Data that a program ships beside its job graph, such as a large collection: files, known by their content.

The client writes them, and they travel as artifacts to the dispatcher. A task that needs one reads the client's file
when it is on the same host, or else fetches it into a file that has no name any more: nothing of it stays behind.
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
    """A file; `path` is where the client wrote it, on its own host and only for a while."""

    sha256: str
    path: str
    size: int


class DataOrigin:
    """Where tasks of this process fetch data from: the dispatcher of their job."""

    def __init__(self) -> None:
        self._address = ""
        self._configuration = Configuration()

    def set(self, address: str, configuration: Configuration) -> None:
        """Called once by a worker's main."""
        self._address, self._configuration = address, configuration

    def open(self, file: DataFile) -> BinaryIO:
        """The file, to be read from its beginning. Blocks while it is fetched; raises ArtifactError."""
        try:
            opened = open(file.path, "rb")  # noqa: SIM115  # the caller closes it
            if opened.seek(0, 2) == file.size:
                opened.seek(0)
                return opened
            opened.close()
        except OSError:
            pass  # the client is on another host, or has gone
        fetching = ThreadPoolExecutor(1, thread_name_prefix="millstream data")
        try:
            return fetching.submit(asyncio.run, self._fetch(file)).result()
        finally:
            fetching.shutdown(wait=False)  # an interrupted task does not wait for it

    async def _fetch(self, file: DataFile) -> BinaryIO:
        import grpc  # here: programs import this module, and few have such data

        from millstream.core.environments.artifacts import ArtifactError
        from millstream.core.messages.dispatcher import ArtifactRequest
        from millstream.core.services.rpc import Stub, channel_for_calls, explain
        from millstream.core.wire.contracts import DISPATCHER

        if not self._address:
            raise ArtifactError(f"the data file {file.path} is gone")
        digest = hashlib.sha256()
        target = tempfile.TemporaryFile(dir=work_directory(self._configuration, "data"))  # noqa: SIM115  # as above
        try:
            async with channel_for_calls(self._address, self._configuration) as channel:
                stub = Stub(channel, DISPATCHER)
                async for chunk in stub.download_artifact(ArtifactRequest(file.sha256)):
                    digest.update(chunk.data)
                    target.write(chunk.data)
            if digest.hexdigest() != file.sha256:
                raise ArtifactError(f"data of the job arrived damaged from {self._address}: its sha256 is another one")
            target.seek(0)
        except grpc.RpcError as error:
            target.close()
            raise ArtifactError(f"cannot fetch data of the job from {self._address}: {explain(error)}") from error
        except BaseException:
            target.close()
            raise
        return target


ORIGIN = DataOrigin()
