"""Starts a cluster of processes, rescales a job in it up and down, and reports how long that took.

    rescale_cluster.py TIMES RATE

Reports `rescale` for each: the parallelism, the seconds from the request to all tasks running (`whole`), those in which
no task ran (`stopped`), and the longest time without a result (`gap`). Checks that no count was lost.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import marks
from counted_output import longest_gap, lost_keys, results  # beside this file

HERE = Path(__file__).parent
DEADLINE = 60.0
SETTLING = 2.0  # seconds between rescales


class Cluster:
    """A cluster that is controlled by the command line and REST."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = self._token = ""

    def start(self) -> None:
        options = {**_free_ports(), "execution.checkpointing.interval": "10 s"}
        options["execution.checkpointing.dir"] = str(self._folder / "checkpoints")
        self._address = f"127.0.0.1:{options['rest.port']}"
        flags = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        self._cli("cluster", "start", "--dir", str(self._folder / "cluster"), "--slots", "2", *flags)
        self._token = self._cli("cluster", "token", "--dir", str(self._folder / "cluster")).strip()

    def stop(self) -> None:
        self._cli("cluster", "stop", "--dir", str(self._folder / "cluster"))

    def submit(self, *arguments: str) -> str:
        output = self._cli("run", "-d", "-m", self._address, str(HERE / "rescale_job.py"), *arguments)
        return output.split("JobID", 1)[1].split()[0]

    def get(self, path: str, method: str = "GET") -> Any:
        known = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(f"http://{self._address}{path}", headers=known, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as response:
            return json.load(response)

    def rescale(self, job_id: str, parallelism: int) -> tuple[float, float]:
        """Returns the seconds from the request until all tasks run, and those without a running task."""
        began = time.monotonic()
        path = f"/jobs/{job_id}/rescaling"
        trigger = self.get(f"{path}?parallelism={parallelism}", "PATCH")["request-id"]
        while (status := self.get(f"{path}/{trigger}"))["operation"] is None:
            time.sleep(0.005)
        whole = time.monotonic() - began
        if "message" not in status["operation"]:
            raise SystemExit(f"not rescaled: {status}")
        while not (events := self.get(f"/jobs/{job_id}/events")["events"]) or events[-1]["kind"] != "RESCALE_COMPLETED":
            time.sleep(0.005)
        found = re.search(r"after ([0-9.]+) s", events[-1]["message"])
        assert found is not None
        return whole, float(found[1])

    def _cli(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "millstream.cli.main", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
        if done.returncode:
            raise SystemExit(f"{arguments} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def _free_ports() -> dict[str, str]:
    names = ("rest.port", "dispatcher.rpc.port", "jobmanager.rpc.port", "resourcemanager.rpc.port")
    sockets = [socket.socket() for _ in names]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = {name: str(each.getsockname()[1]) for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports


def main() -> None:
    times, rate = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="millstream-rescale-") as name:
        folder = Path(name)
        out = folder / "out"
        out.mkdir()
        cluster = Cluster(folder)
        cluster.start()
        try:
            job_id = cluster.submit(str(out), rate)
            while not results(out):
                time.sleep(0.1)
            spans: list[tuple[int, int, int, float, float]] = []
            for number in range(2 * times):
                parallelism = 2 - number % 2
                time.sleep(SETTLING)
                begin = time.monotonic_ns()
                whole, stopped = cluster.rescale(job_id, parallelism)
                time.sleep(SETTLING)
                spans.append((parallelism, begin, time.monotonic_ns(), whole, stopped))
            cluster.get(f"/jobs/{job_id}?mode=cancel", "PATCH")
            found = results(out)
            for parallelism, begin, end, whole, stopped in spans:
                gap = longest_gap(found, begin, end)
                marks.report("rescale", parallelism=parallelism, whole=whole, stopped=stopped, gap=gap)
            marks.report("lost", keys=lost_keys(found))
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
