"""A cluster with many small jobs, and dashboards that look at them all at once.

    rest_load_cluster.py JOBS TASKS DASHBOARDS SECONDS

Each dashboard is a connection that asks for one page after the other, as the pages do while they are open: twice a
second what one of them shows, of a job that it has chosen. Reports `requests` with the seconds of every answer and
`memory` with the dispatcher's, at the beginning and at the end.
"""

from __future__ import annotations

import http.client
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[2] / "tests" / folder) for folder in (".", "integration"))

import marks  # beside this file
from system import Cluster, running_cluster  # on the path since above
from waiting import wait_until

JOB = Path(__file__).parent / "rest_load_job.py"
PAUSE = 0.5  # seconds between the pages of a dashboard
DEADLINE = 240.0
SETTLING = 5.0
METRICS = "numRecordsIn,numRecordsInPerSecond,busyTimeMsPerSecond"
MEBIBYTE = 1024


class Dashboard(threading.Thread):
    """One that is open."""

    def __init__(self, cluster: Cluster, pages: list[list[str]], until: float, seed: int) -> None:
        super().__init__()
        self._address = cluster.rest
        self._headers = cluster.authorization
        self._pages = pages
        self._until = until
        self._random = random.Random(seed)
        self.nanoseconds: list[int] = []
        self.failed = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        time.sleep(self._random.random() * PAUSE)
        while time.monotonic() < self._until:
            for path in self._random.choice(self._pages):
                began = time.monotonic_ns()
                connection.request("GET", path, headers=self._headers)
                answer = connection.getresponse()
                answer.read()
                self.nanoseconds.append(time.monotonic_ns() - began)
                self.failed += answer.status != 200
            time.sleep(PAUSE)
        connection.close()


def _pages(cluster: Cluster, jobs: list[str]) -> list[list[str]]:
    """What each page asks for."""
    pages = [["/overview", "/jobs/overview"], ["/taskmanagers"]]
    for job in jobs[:10]:
        vertex = cluster.get(f"/jobs/{job}")["vertices"][1]["id"]
        at = f"/jobs/{job}/vertices/{vertex}"
        pages += [
            [f"/jobs/{job}", f"/jobs/{job}/exceptions", f"/jobs/{job}/checkpoints"],
            [at, f"{at}/backpressure", f"{at}/watermarks", f"{at}/subtasks/metrics?get={METRICS}"],
        ]
    return pages


def _memory(pid: int) -> int:
    """Resident, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def main() -> None:
    count, tasks, dashboards, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    with (
        tempfile.TemporaryDirectory(prefix="millstream-rest-load-") as name,
        running_cluster(Path(name), 1, count) as cluster,
    ):
        cluster.run("-d", str(JOB), str(count), str(tasks), deadline=DEADLINE)

        def all_run() -> bool:
            shown = cluster.get("/jobs/overview")["jobs"]
            return sum(job["tasks"]["running"] for job in shown) == count * tasks

        wait_until(all_run, "all tasks to run", DEADLINE)
        time.sleep(SETTLING)
        pages = _pages(cluster, [job["id"] for job in cluster.get("/jobs")["jobs"]])
        (dispatcher,) = cluster.service_pids("dispatcher")
        warm = [Dashboard(cluster, pages, time.monotonic() + SETTLING, seed) for seed in range(dashboards)]
        _look(warm)
        before = _memory(dispatcher)
        opened = [Dashboard(cluster, pages, time.monotonic() + seconds, seed) for seed in range(dashboards)]
        _look(opened)
        marks.report("memory", before=before / MEBIBYTE, after=_memory(dispatcher) / MEBIBYTE)
        marks.report("failed", requests=sum(each.failed for each in opened))
        marks.report_samples("requests", [each for dashboard in opened for each in dashboard.nanoseconds])


def _look(dashboards: list[Dashboard]) -> None:
    for dashboard in dashboards:
        dashboard.start()
    for dashboard in dashboards:
        dashboard.join()


if __name__ == "__main__":
    main()
