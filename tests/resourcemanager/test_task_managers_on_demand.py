"""The resource manager with its process provider and real task managers: started when wanted, let go when idle."""

from __future__ import annotations

from pathlib import Path

import pytest
from resource_cluster import running

from millstream.core.jobs.ids import JobId
from millstream.core.messages import resource_manager as msg
from millstream.resourcemanager.process_records import read_records

pytestmark = pytest.mark.process


async def test_task_managers_come_and_go_with_the_demand(tmp_path: Path) -> None:
    options = {
        "io.tmp.dirs": str(tmp_path),
        "resourcemanager.provider": "process",
        "resourcemanager.taskmanager-timeout": "200 ms",
        "taskmanager.numberOfTaskSlots": 2,
        "heartbeat.interval": "200 ms",
        "heartbeat.timeout": "15 s",  # how long slots wait for a job manager that is not there
    }
    async with running(**options) as cluster:
        job_manager = await cluster.job_manager("jm", job=3)
        notice = await job_manager.next()
        assert isinstance(notice, msg.NotEnoughSlots)
        assert notice.required == 3
        overview = await cluster.overview_when(lambda o: o.pending_slots == 0 and len(o.task_managers) == 2)
        assert [len(t.slots) for t in overview.task_managers] == [2, 2]
        assert sum(s.job_id == "job" for t in overview.task_managers for s in t.slots) == 3
        records = list(read_records(tmp_path / "run").values())
        assert len(records) == 2
        await job_manager.send(msg.Requirement(JobId("job"), 0))
        await cluster.overview_when(lambda o: not o.task_managers and not any(r.is_running() for r in records))
    assert read_records(tmp_path / "run") == {}
