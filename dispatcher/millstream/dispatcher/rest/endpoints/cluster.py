"""REST endpoints of the cluster: overview, the dashboard's configuration, task managers."""

from __future__ import annotations

import time
from collections import Counter
from importlib.metadata import PackageNotFoundError, version

from starlette.requests import Request

from millstream.core.jobs.states import JobStatus
from millstream.core.messages.resource_manager import SlotStatus, TaskManagerInfo
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.metrics.fetcher import MetricFetcher
from millstream.dispatcher.metrics.store import Values
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import RestError, RestRoute

_REFRESH_MS = 3000
_HEAP = "Status.JVM.Memory.Heap.Used"
_MEMORY_POOLS = (
    "frameworkHeap", "taskHeap", "frameworkOffHeap", "taskOffHeap", "networkMemory", "managedMemory", "jvmMetaspace",
    "jvmOverhead",
)  # fmt: skip
_NOT_MEASURED = (
    "nonHeapUsed", "nonHeapCommitted", "nonHeapMax", "directCount", "directUsed", "directMax", "mappedCount",
    "mappedUsed", "mappedMax", "nettyShuffleMemoryAvailable", "nettyShuffleMemoryUsed", "nettyShuffleMemoryTotal",
    "nettyShuffleMemorySegmentsAvailable",
)  # fmt: skip


def millstream_version() -> str:
    """The installed version."""
    try:
        return version("millstream")
    except PackageNotFoundError:
        return "unknown"


class ClusterEndpoints:
    """Shows the cluster."""

    def __init__(
        self,
        lifecycle: JobLifecycle,
        cluster: ClusterView,
        fetcher: MetricFetcher,
        rpc_address: str,
        takes_programs: bool,
    ) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._fetcher = fetcher
        self._rpc_address = rpc_address
        self._takes_programs = takes_programs

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        one = "/taskmanagers/{taskmanagerid}"
        return [
            RestRoute("GET", "/overview", self.overview, "Numbers of task managers, slots and jobs.", schemas.OVERVIEW),
            RestRoute("GET", "/config", self.config, "What a dashboard has to know.", schemas.CONFIG),
            RestRoute("GET", "/taskmanagers", self.task_managers, "All task managers.", schemas.TASK_MANAGERS),
            RestRoute("GET", one, self.task_manager, "A task manager with its slots.", schemas.TASK_MANAGER),
        ]

    async def overview(self, request: Request) -> Json:
        """`GET /overview`."""
        cluster = await self._cluster.overview()
        slots = [slot for manager in cluster.task_managers for slot in manager.slots]
        states = Counter(details.state for details in self._lifecycle.all())
        ended = {state: states[state] for state in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)}
        return {
            "taskmanagers": len(cluster.task_managers),
            "slots-total": len(slots),
            "slots-available": sum(_is_free(slot) for slot in slots),
            "jobs-running": states.total() - sum(ended.values()),
            "jobs-finished": ended[JobStatus.FINISHED],
            "jobs-cancelled": ended[JobStatus.CANCELED],
            "jobs-failed": ended[JobStatus.FAILED],
            "flink-version": millstream_version(),
            "flink-commit": "unknown",
            "taskmanagers-blocked": 0,
            "slots-free-and-blocked": 0,
        }

    async def config(self, request: Request) -> Json:
        """`GET /config`."""
        now = time.localtime()
        submit = self._takes_programs
        return {
            "refresh-interval": _REFRESH_MS,
            "timezone-name": now.tm_zone,
            "timezone-offset": now.tm_gmtoff * 1000,
            "flink-version": millstream_version(),
            "flink-revision": "unknown",
            "dispatcher-rpc-address": self._rpc_address,
            "features": {"web-submit": submit, "web-cancel": True, "web-rescale": True, "web-history": False},
        }

    async def task_managers(self, request: Request) -> Json:
        """`GET /taskmanagers`."""
        overview = await self._cluster.overview()
        measured, assigned = self._fetcher.store.task_managers(), self._assigned()
        return {
            "taskmanagers": [
                _task_manager(manager, measured.get(manager.task_manager_id, {}), assigned)
                for manager in overview.task_managers
            ]
        }

    async def task_manager(self, request: Request) -> Json:
        """`GET /taskmanagers/:taskmanagerid`."""
        manager = await self._find(request)
        measured = (await self._fetcher.fresh()).task_managers().get(manager.task_manager_id, {})
        assigned = self._assigned()
        slots = [
            {
                "jobId": slot.job_id,
                "resource": _resource(manager, 1),
                "index": slot.index,
                "assignedTasks": assigned[manager.task_manager_id, slot.job_id],
            }
            for slot in manager.slots
            if not _is_free(slot)
        ]
        return {
            **_task_manager(manager, measured, assigned),
            "allocatedSlots": slots,
            "metrics": _used(manager, measured),
        }

    def _assigned(self) -> Counter[tuple[str, str]]:
        """How many tasks run on each task manager, of each job."""
        return Counter(
            (subtask.task_manager, details.job_id)
            for details in self._lifecycle.all()
            for vertex in details.vertices
            for subtask in vertex.subtasks
            if subtask.task_manager and not subtask.state.is_terminal
        )

    async def _find(self, request: Request) -> TaskManagerInfo:
        wanted = request.path_params["taskmanagerid"]
        for manager in (await self._cluster.overview()).task_managers:
            if manager.task_manager_id == wanted:
                return manager
        raise RestError(404, f"no task manager {wanted} is registered")


def _is_free(slot: SlotStatus) -> bool:
    return not slot.allocation_id


def _task_manager(manager: TaskManagerInfo, measured: Values, assigned: Counter[tuple[str, str]]) -> Json:
    free = sum(_is_free(slot) for slot in manager.slots)
    tasks = sum(count for (where, _), count in assigned.items() if where == manager.task_manager_id)
    used = int(measured.get(_HEAP, 0))
    return {
        "id": manager.task_manager_id,
        "path": manager.address,
        "dataPort": int(manager.address.rpartition(":")[2] or -1),
        "jmxPort": -1,
        "timeSinceLastHeartbeat": manager.last_heartbeat,
        "slotsNumber": len(manager.slots),
        "freeSlots": free,
        "totalResource": _resource(manager, len(manager.slots)),
        "freeResource": _resource(manager, free),
        "hardware": {
            "cpuCores": manager.cpu_cores,
            "physicalMemory": manager.memory_bytes,
            "freeMemory": max(0, manager.memory_bytes - used),
            "managedMemory": 0,
        },
        "memoryConfiguration": {
            **dict.fromkeys(_MEMORY_POOLS, 0),
            "totalFlinkMemory": manager.memory_bytes,
            "totalProcessMemory": manager.memory_bytes,
        },
        "assignedTasks": tasks,
        "blocked": False,
    }


def _used(manager: TaskManagerInfo, measured: Values) -> Json:
    """Of the task manager with its slot workers. Python has one heap, and memory is not divided into pools: 0."""
    used, buffers = int(measured.get(_HEAP, 0)), int(measured.get("Status.Shuffle.Netty.UsedMemorySegments", 0))
    collector = {
        "name": "Python",
        "count": int(measured.get("Status.JVM.GarbageCollector.All.Count", 0)),
        "time": int(measured.get("Status.JVM.GarbageCollector.All.Time", 0)),
    }
    return {
        "heapUsed": used,
        "heapCommitted": used,
        "heapMax": manager.memory_bytes,
        **dict.fromkeys(_NOT_MEASURED, 0),
        "nettyShuffleMemorySegmentsUsed": buffers,
        "nettyShuffleMemorySegmentsTotal": buffers,
        "garbageCollectors": [collector],
    }


def _resource(manager: TaskManagerInfo, slots: int) -> Json:
    """The share of these slots in the host's processors; memory is not divided among slots."""
    share = slots / len(manager.slots) if manager.slots else 0.0
    return {
        "cpuCores": manager.cpu_cores * share,
        "taskHeapMemory": 0,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }
