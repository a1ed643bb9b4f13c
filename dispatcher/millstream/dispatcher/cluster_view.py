"""What the dispatcher shows of the rest of the cluster: task managers and slots, requested from the resource manager.

And what the services return about their processes: metrics, logs, threads, and where time goes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import grpc

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.messages.inspection import SampleRequest, StackSamples, ThreadDump
from millstream.core.messages.logs import LogContent, LogFile, LogList, ReadLogRequest
from millstream.core.messages.metrics import ProcessMetrics
from millstream.core.messages.resource_manager import Overview
from millstream.core.messages.session import Empty
from millstream.core.services.leader_lookup import ConfiguredLeaders, LeaderLookup, Role
from millstream.core.services.rpc import Stub, explain
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import ServiceContract
from millstream.core.wire.contracts import INSPECTION, PROFILING, RESOURCE_MANAGER
from millstream.dispatcher.channels import KeptChannels

log = logging.getLogger(__name__)
_TIMEOUT = 2.0
_LOG_TIMEOUT = 10.0


class NoSuchLogError(MillstreamError):
    """The service has no log file of this name."""


class ClusterView:
    """A client of the resource manager and of all services. An unreachable resource manager is an empty cluster."""

    def __init__(self, configuration: Configuration, clock: Clock, leaders: LeaderLookup | None = None) -> None:
        self._leaders = leaders or ConfiguredLeaders(configuration)
        self._channels = KeptChannels(configuration, clock)
        self._reachable = True

    async def overview(self) -> Overview:
        """Task managers and pending slots at this moment."""
        try:
            leader = await self._leaders.leader_of(Role.RESOURCE_MANAGER)
            overview: Overview = await self._call(leader.address, "get_overview", Empty(), RESOURCE_MANAGER, _TIMEOUT)
        except UnreachableError as error:
            if self._reachable:
                log.warning("cannot fetch task managers from the resource manager: %s", error)
            self._reachable = False
            return Overview()
        self._reachable = True
        return overview

    async def is_reachable(self) -> bool:
        """Whether the resource manager responds now."""
        await self.overview()
        return self._reachable

    async def metrics(self, address: str) -> bytes:
        """What the service at this address measures, as `decode_groups` takes it. Raises UnreachableError."""
        measured: ProcessMetrics = await self._call(address, "get_metrics", Empty(), timeout=_TIMEOUT)
        return measured.groups

    async def read_log(self, address: str, name: str, offset: int | None, length: int) -> LogContent:
        """A piece of a log file of the service at this address. Raises NoSuchLogError, UnreachableError."""
        content: LogContent = await self._call(address, "read_log", ReadLogRequest(name, offset, length))
        return content

    async def list_logs(self, address: str) -> Sequence[LogFile]:
        """The log files of the service at this address. Raises UnreachableError."""
        found: LogList = await self._call(address, "list_logs", Empty())
        return found.files

    async def dump_threads(self, address: str) -> ThreadDump:
        """The threads of the service at this address, and of its slot workers. Raises UnreachableError."""
        dump: ThreadDump = await self._call(address, "dump_threads", Empty(), INSPECTION)
        return dump

    async def sample_stacks(self, address: str, request: SampleRequest, timeout: float) -> StackSamples:
        """Where the workers of a job spend their time, on the task manager at this address. Raises UnreachableError."""
        samples: StackSamples = await self._call(address, "sample_stacks", request, PROFILING, timeout)
        return samples

    async def _call(
        self, address: str, method: str, request: Any, of: ServiceContract = INSPECTION, timeout: float = _LOG_TIMEOUT
    ) -> Any:
        stub = Stub(await self._channels.to(address), of)
        try:
            return await getattr(stub, method)(request, timeout=timeout)
        except grpc.RpcError as error:
            if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.NOT_FOUND:
                raise NoSuchLogError(explain(error)) from error
            raise UnreachableError(f"the service at {address} does not respond: {explain(error)}") from error

    async def close(self) -> None:
        """Releases the connections."""
        await self._channels.close()
