"""The services and slot workers of a cluster in this process, with a job that runs while they are attacked.

An attacker finds its ports as any user of the host does.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor

from millstream.client.embedded import EmbeddedCluster
from millstream.client.loop_thread import LoopThread
from millstream.common import Configuration as ProgramConfiguration
from millstream.core.services.rpc import open_channel
from millstream.core.settings.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment

KEYS = 5
RECORDS = 20_000
_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


class AttackedCluster:
    """Calls to its services: as bytes, with the status of the response."""

    def __init__(self, loop: LoopThread, configuration: Configuration, job: Any) -> None:
        self.job_id = str(job.get_job_id())
        self._loop = loop
        self._configuration = configuration
        self._job = job

    def ports(self) -> list[int]:
        """All ports on which this process listens."""
        return listening_ports(os.getpid())

    def call(self, port: int, method: MethodDescriptor, messages: list[bytes]) -> tuple[grpc.StatusCode, str]:
        """Sends the messages and half-closes; returns how the call ended."""
        return self._loop.call(self._call(port, method, messages, self._configuration))

    def call_as_stranger(
        self, port: int, method: MethodDescriptor, messages: list[bytes]
    ) -> tuple[grpc.StatusCode, str]:
        """The same by a client without the cluster's secret."""
        return self._loop.call(self._call(port, method, messages, Configuration()))

    async def _call(
        self, port: int, method: MethodDescriptor, messages: list[bytes], configuration: Configuration
    ) -> tuple[grpc.StatusCode, str]:
        async def each() -> Any:
            for message in messages:
                yield message

        async with open_channel(f"127.0.0.1:{port}", configuration) as channel:
            kind = _KINDS[method.client_streaming, method.server_streaming]
            start = getattr(channel, kind)(f"/{method.containing_service.full_name}/{method.name}")
            call = start(each() if method.client_streaming else messages[0], timeout=30)
            try:
                if method.server_streaming:
                    async for _ in call:
                        pass
                else:
                    await call
            except grpc.aio.AioRpcError as error:
                # what gRPC reports when writing to a call that has ended
                if error.details() == "Internal error from Core":
                    return grpc.StatusCode.CANCELLED, ""
                return error.code(), error.details() or ""
            return grpc.StatusCode.OK, ""


def listening_ports(pid: int) -> list[int]:
    """The ports of a process, by the system's own tables."""
    held = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(os.readlink(descriptor))
        except OSError:
            continue
    found = []
    tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    for line in itertools.chain(*tables):
        _, local, _, state, *rest = line.split()
        if state == "0A" and f"socket:[{rest[5]}]" in held:
            found.append(int(local.rpartition(":")[2], 16))
    return sorted(found)


def send_bytes(port: int, content: bytes) -> bytes:
    """Sends raw bytes; returns the response until the other end closes the connection, which it has to."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while part := connection.recv(1 << 16):
                received += part
            return received
        except TimeoutError:
            raise
        except OSError:  # the other end was faster
            return b""


@contextmanager
def attacked_cluster(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[AttackedCluster]:
    """With a job that continues until the end of the block, and ends there normally."""
    go = folder / "go"

    def slowly(number: int) -> int:
        if not go.exists():
            time.sleep(0.01)
        return number

    def kept(pair: tuple[int, int]) -> tuple[int, int]:
        with (folder / f"key-{pair[0]}").open("a") as file:
            file.write(f"{pair[1]}\n")
        return pair

    configuration = Configuration(
        {
            "execution.local.in-process": "true",
            "io.tmp.dirs": str(folder / "work"),
            "security.cluster.secret": "known to the attacker",  # others are refused before anything is read
            **(options or {}),
        }
    )
    loop = LoopThread("attacked cluster")
    cluster = EmbeddedCluster(configuration, slots=2)
    try:
        dispatcher = loop.call(cluster.start())
        host, _, port = dispatcher.rpartition(":")
        remote = {"execution.target": "remote", "dispatcher.rpc.address": host, "dispatcher.rpc.port": port}
        env = StreamExecutionEnvironment.get_execution_environment(
            ProgramConfiguration({**cluster.configuration.to_dict(), **remote})
        )
        env.set_parallelism(2)
        pairs = env.from_sequence(1, RECORDS).map(slowly).map(lambda number: (number % KEYS, number))
        sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
        sums.map(kept).filter(lambda _: False).print()
        job = env.execute_async("beside")
        yield AttackedCluster(loop, cluster.configuration, job)
        go.touch()
        job.get_job_execution_result().result()
    finally:
        loop.call(cluster.stop())
        loop.close()
    for key in range(KEYS):
        highest = max(map(int, (folder / f"key-{key}").read_text().split()))
        assert highest == sum(number for number in range(1, RECORDS + 1) if number % KEYS == key)
