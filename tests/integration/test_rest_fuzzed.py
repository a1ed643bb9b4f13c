"""The REST API of a real cluster, with requests that its OpenAPI document allows and forbids: responses match the
document.

No response is an internal error, none takes forever, and jobs that no request concerns continue undisturbed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_fuzzing import Outcomes, send_requests
from system import Cluster, given, recovering, running_cluster, write_job
from wheels import write_wheel

from millstream.core.services.cluster_secret import cluster_secret

pytestmark = [pytest.mark.process, pytest.mark.slow]

ENDLESS = """
import time

def slowly(number):
    time.sleep(0.01)
    return number

env.from_sequence(0, 10**12).map(slowly).key_by(lambda number: number % 7).reduce(lambda _, number: number).print()
env.execute("endless")
"""
TRIGGER = "a" * 32
OUR_TRACEBACK = re.compile(r'File ".*/millstream/(core|dispatcher|jobmanager|resourcemanager|taskmanager)/')
FAILING = """
env.from_collection([1, 2]).map(lambda number: 1 // (number - 2)).print()
env.execute("failing")
"""
CHANGED = (
    "PATCH /jobs/{jobid}",
    "POST /jobs/{jobid}/stop",
    "POST /jobs/{jobid}/savepoints",
    "PUT /jobs/{jobid}/resource-requirements",
    "PATCH /jobs/{jobid}/rescaling",
    "GET /jobs/{jobid}/yarn-cancel",
    "PATCH /jobs/{jobid}/clientHeartbeat",
)
NEEDS_LUCK = {
    "GET /challenge", "GET /jars/{jarid}/plan", "GET /jobs/{jobid}/rescaling/{triggerid}", "GET /snapshots",
    "GET /snapshots/rows", "GET /snapshots/diff", "GET /datasets/delete/{triggerid}",
    "GET /jobs/{jobid}/rescales/details/{rescaleuuid}", "GET /jobmanager/profiler/{file}",
    "GET /taskmanagers/{taskmanagerid}/profiler/{file}", "GET /jobs/{jobid}/yarn-stop",
}  # fmt: skip


class Jobs:
    """The jobs, wheels and files of a cluster that requests refer to."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        checkpoints = given(*recovering(folder / "checkpoints", "500ms"))
        endless = write_job(folder, "endless", ENDLESS)
        self.kept, self.victim = (cluster.submit_running(endless, *checkpoints) for _ in range(2))
        self.failed = cluster.submit(write_job(folder, "failing", FAILING))
        cluster.wait_for(self.failed, "FAILED")
        cluster.wait_for_checkpoint(self.kept)
        program = """
        def main():
            from millstream.datastream import StreamExecutionEnvironment
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([1]).print()
            env.execute("from a wheel")
        """
        cluster.upload(write_wheel(folder, {"tinyjob.py": program}, entry="tinyjob:main"))
        self.known = {
            "vertexid": [vertex["id"] for vertex in cluster.get(f"/jobs/{self.kept}")["vertices"]],
            "taskmanagerid": [manager["id"] for manager in cluster.get("/taskmanagers")["taskmanagers"]],
            "jarid": [wheel["id"] for wheel in cluster.get("/jars")["files"]],
            "triggerid": [TRIGGER],
            "subtaskindex": ["0"],
            "attempt": ["0"],
            "slot": ["0"],
            "jobmanagerid": [one["id"] for one in cluster.get("/jobmanagers")["jobmanagers"]],
        }
        for path, body in (
            (f"/jobs/{self.kept}/savepoints", {"target-directory": str(folder / "savepoints")}),
            (f"/jobs/{self.kept}/checkpoints", {}),
            ("/savepoint-disposal", {"savepoint-path": str(folder / "none")}),
        ):
            status, response = cluster.request("POST", path, json.dumps({**body, "triggerId": TRIGGER}).encode())
            assert status == (200 if path == "/savepoint-disposal" else 202)
            assert response == {"request-id": TRIGGER}

    def existing(self, operation: str, parameter: str) -> list[str]:
        if parameter == "jobid":
            return [self.victim, self.failed] if operation in CHANGED else [self.kept, self.kept, self.failed]
        if parameter == "applicationid":
            return [self.victim] if operation.startswith("POST ") else [self.kept]
        if parameter == "checkpointid":  # only the last ones are remembered
            return [str(self.cluster.get(f"/jobs/{self.kept}/checkpoints")["latest"]["completed"]["id"])]
        if parameter == "name":
            owner = "jobmanager" if "/jobmanager/" in operation else f"taskmanagers/{self.known['taskmanagerid'][0]}"
            if "/jobmanagers/" in operation:
                owner = f"jobmanagers/{self.known['jobmanagerid'][0]}"
            return [log["name"] for log in self.cluster.get(f"/{owner}/logs")["logs"]]
        if parameter == "jobmanagerid" and "{name}" in operation:  # which has these logs
            return self.known["jobmanagerid"][:1]
        return self.known.get(parameter, [])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    folder = tmp_path_factory.mktemp("fuzzed")
    options = {"heartbeat.interval": "500 ms", "rest.rate-limit": "0"}  # requests are made as fast as can be
    with running_cluster(folder / "cluster", 1, 3, **options) as cluster:
        yield Jobs(cluster, folder)


def outcomes_of(jobs: Jobs, headers: dict[str, str], examples: int, folder: Path, edges: bool = True) -> Outcomes:
    document = jobs.cluster.get("/openapi.json")
    return send_requests(
        f"http://{jobs.cluster.rest}", document, jobs.existing, spared=[jobs.kept], headers=headers, examples=examples,
        folder=str(folder), edges=edges,
    )  # fmt: skip


def token(cluster: Cluster, role: str) -> dict[str, str]:
    """The headers of a request with this role."""
    secret = cluster_secret(cluster.security)
    assert secret is not None
    return {"Authorization": f"Bearer {secret.rest_token(role)}"}


@pytest.mark.parametrize("shown", ["nothing", "a token to read"])
def test_forbidden_requests_are_refused(jobs: Jobs, tmp_path: Path, shown: str) -> None:
    cluster = jobs.cluster
    before = {job["jid"]: job["state"] for job in cluster.get("/jobs/overview")["jobs"]}
    headers = token(cluster, "read") if shown == "a token to read" else {}
    outcomes = outcomes_of(jobs, headers, 3, tmp_path / "savepoints", edges=False)
    # Unauthorized clients do not learn which methods exist.
    faults = {key: text for key, text in outcomes.faults.items() if key[1] != "unsupported_method"}
    assert not faults, "\n".join(f"{label}, {check}: {text}" for (label, check), text in faults.items())
    needed = {
        f"{method.upper()} {path}": operation["x-millstream-role"]
        for path, methods in cluster.get("/openapi.json")["paths"].items()
        for method, operation in methods.items()
    }
    may = {"anyone", "read"} if shown == "a token to read" else {"anyone"}
    done = {operation for operation, statuses in outcomes.statuses.items() if {200, 202} & set(statuses)}
    assert {needed[operation] for operation in done} == may
    for operation, statuses in outcomes.statuses.items():
        refused = {401} if shown == "nothing" else {403}
        assert needed[operation] in may or refused & set(statuses), (operation, statuses)
    assert {job["jid"]: job["state"] for job in cluster.get("/jobs/overview")["jobs"]} == before
    assert not (tmp_path / "savepoints").exists()


def test_responses_match_the_document(jobs: Jobs, tmp_path: Path) -> None:
    cluster = jobs.cluster
    before = cluster.records(jobs.kept)
    outcomes = outcomes_of(jobs, token(cluster, "submit"), 4, tmp_path / "savepoints")
    faults = outcomes.faults
    assert not faults, "\n".join(f"{label}, {check}: {text}" for (label, check), text in faults.items())

    served = {operation for operation, statuses in outcomes.statuses.items() if {200, 202} & set(statuses)}
    reads = {
        f"GET {path}"
        for path, methods in cluster.get("/openapi.json")["paths"].items()
        if "get" in methods and not path.startswith(("/wheels", "/updates"))
    }
    assert reads - served - NEEDS_LUCK == set(), "where there is something to read"
    assert outcomes.requests > 500

    assert cluster.state(jobs.kept) == "RUNNING"
    assert max(cluster.attempts(jobs.kept)) == 0
    cluster.wait_for_checkpoint(jobs.kept)
    assert cluster.records(jobs.kept) > before
    for log in (cluster.directory / "log").glob("*.log"):
        assert not OUR_TRACEBACK.search(log.read_text()), log
