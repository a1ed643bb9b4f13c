"""A cluster with many small jobs, and dashboards that show them all at once.

    rest_load_cluster.py JOBS TASKS DASHBOARDS SECONDS [PAUSE]

Each dashboard stays on a page for a while, as a user does, and holds a stream of that page's paths open, as the real
ones do: its responses are pushed when they change. Besides, as one does whose stream is cut off by a proxy, it requests
the paths themselves over another connection, with a pause after each round.

Reports `requests` with the nanoseconds of each response and the number of its path's kind (`kinds`), `pages` with those
from opening a stream until each path had its response, `memory` with the dispatcher's, every second, and `cores` with
the CPU time of each kind of process, before the dashboards are opened and while they are.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

sys.path.extend(str(Path(__file__).parents[2] / "tests" / folder) for folder in (".", "integration"))

import marks  # beside this file
from system import Cluster, running_cluster  # on the path since above
from waiting import wait_until

JOB = Path(__file__).parent / "rest_load_job.py"
PAUSE = 0.5  # seconds between two rounds of a page's paths
STAY = 5  # seconds on a page
DEADLINE = 240.0
SETTLING = 5.0
METRICS = "numRecordsIn,numRecordsInPerSecond,busyTimeMsPerSecond"
SERVICES = ("dispatcher", "jobmanager", "resourcemanager", "taskmanager")
KIBIBYTES = 1024  # in a mebibyte


class Page(threading.Thread):
    """The stream of a page's paths, until it ends by itself."""

    def __init__(self, cluster: Cluster, paths: list[str]) -> None:
        super().__init__()
        self._cluster = cluster
        self._paths = paths
        self.shown: int | None = None
        """Returns the nanoseconds until the page was complete."""
        self.failed = 0

    def run(self) -> None:
        began, missing = time.monotonic_ns(), set(self._paths)
        connection = http.client.HTTPConnection(self._cluster.rest, timeout=60)
        query = urlencode([("seconds", STAY), *(("path", path) for path in self._paths)])
        connection.request("GET", f"/updates?{query}", headers=self._cluster.authorization)
        response = connection.getresponse()
        while line := response.readline():
            if line.startswith(b"data: "):
                head, _, _ = line.removeprefix(b'data: {"path":"').decode().partition(',"body"')
                path, _, status = head.partition('","status":')
                missing.discard(path)
                self.failed += status != "200"
                if not missing and self.shown is None:
                    self.shown = time.monotonic_ns() - began
        self.failed += len(missing)
        connection.close()


class Dashboard(threading.Thread):
    """An open dashboard."""

    def __init__(self, cluster: Cluster, pages: list[list[str]], seconds: float, pause: float, seed: int) -> None:
        super().__init__()
        self._cluster = cluster
        self._pages = pages
        self._seconds = seconds
        self._pause = pause
        self._random = random.Random(seed)
        self.requests: dict[str, list[int]] = {}
        self.shown: list[int] = []
        self.failed = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._cluster.rest, timeout=60)
        headers = self._cluster.authorization
        until = time.monotonic() + self._seconds
        time.sleep(self._random.random() * self._pause)
        while time.monotonic() < until:
            paths = self._random.choice(self._pages)
            page = Page(self._cluster, paths)
            page.start()
            while page.is_alive():
                for path in paths:
                    began = time.monotonic_ns()
                    connection.request("GET", path, headers=headers)
                    response = connection.getresponse()
                    response.read()
                    taken = time.monotonic_ns() - began
                    self.requests.setdefault(_kind(path), []).append(taken)
                    self.failed += response.status != 200
                time.sleep(self._pause)
            self.failed += page.failed
            if page.shown is not None:
                self.shown.append(page.shown)
        connection.close()


def _pages(cluster: Cluster, jobs: list[str]) -> list[list[str]]:
    """What each page requests."""
    pages = [["/overview", "/jobs/overview"], ["/taskmanagers"]]
    for job in jobs[:10]:
        vertex = cluster.get(f"/jobs/{job}")["vertices"][1]["id"]
        at = f"/jobs/{job}/vertices/{vertex}"
        pages += [
            [f"/jobs/{job}", f"/jobs/{job}/flow"],
            [f"/jobs/{job}", f"/jobs/{job}/exceptions", f"/jobs/{job}/checkpoints"],
            [f"/jobs/{job}", at, f"{at}/backpressure", f"{at}/watermarks", f"{at}/subtasks/metrics?get={METRICS}"],
        ]
    return pages


def _kind(path: str) -> str:
    """The path without ids and parameters."""
    return re.sub(r"/[0-9a-f]{32}", "/:id", path.partition("?")[0])


def _resident(pid: int) -> float:
    """The resident memory in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / KIBIBYTES


def _processor_seconds(cluster: Cluster) -> dict[str, float]:
    """The CPU time used by the processes of each kind so far."""
    kinds = {kind: cluster.service_pids(kind) for kind in SERVICES}
    kinds |= {"slot workers": cluster.workers(), "enumerators": cluster.enumerators()}
    ticks = os.sysconf("SC_CLK_TCK")
    return {kind: sum(_ticks(pid) for pid in pids) / ticks for kind, pids in kinds.items()}


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _taken(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    return {kind: (after[kind] - used) / seconds for kind, used in before.items()}


def main() -> None:
    count, tasks, dashboards, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    pause = float(sys.argv[5]) if len(sys.argv) > 5 else PAUSE
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

        began, idle = time.monotonic(), _processor_seconds(cluster)
        time.sleep(SETTLING)
        unseen = _taken(idle, _processor_seconds(cluster), time.monotonic() - began)

        _look([Dashboard(cluster, pages, SETTLING, pause, seed) for seed in range(dashboards)], dispatcher)
        began, busy = time.monotonic(), _processor_seconds(cluster)
        opened = [Dashboard(cluster, pages, seconds, pause, seed) for seed in range(dashboards)]
        memory = _look(opened, dispatcher)
        seen = _taken(busy, _processor_seconds(cluster), time.monotonic() - began)

        marks.report("memory", mebibytes=memory)
        marks.report("cores", unseen=unseen, seen=seen)
        marks.report("failed", requests=sum(each.failed for each in opened))
        kinds = sorted({kind for dashboard in opened for kind in dashboard.requests})
        marks.report("kinds", kinds=kinds)
        taken = [
            (nanoseconds, number)
            for dashboard in opened
            for number, kind in enumerate(kinds)
            for nanoseconds in dashboard.requests.get(kind, ())
        ]
        marks.report_samples("requests", *zip(*taken, strict=True))
        marks.report_samples("pages", [each for dashboard in opened for each in dashboard.shown])


def _look(dashboards: list[Dashboard], dispatcher: int) -> list[float]:
    """Runs the dashboards until all are closed; returns the memory of the dispatcher for each second."""
    for dashboard in dashboards:
        dashboard.start()
    memory = [_resident(dispatcher)]
    while any(dashboard.is_alive() for dashboard in dashboards):
        time.sleep(1)
        memory.append(_resident(dispatcher))
    return memory


if __name__ == "__main__":
    main()
