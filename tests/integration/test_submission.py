"""Submitting wheels and reading results: over REST and with the command line, with dependencies, on a real cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from system import Cluster, wait_until, write_job
from wheels import wheel_bytes, write_wheel

pytestmark = pytest.mark.process

JOB = """
import time
from pathlib import Path
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink

def main(args):
    def version(_):
        import coloured
        while not Path(args[1]).exists():
            time.sleep(0.05)
        return coloured.VERSION

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).map(version).sink_to(FileSink.for_json_lines(args[0]))
    env.execute("versions")
"""


def job_wheel(folder: Path, version: str) -> Path:
    carried = wheel_bytes({"coloured.py": f"VERSION = '{version}'\n"}, "coloured", version)
    bundled = f"versions_{version[0]}/wheels/coloured-{version}-py3-none-any.whl"
    package = f"versions_{version[0]}"
    files = {f"{package}/__init__.py": JOB, bundled: carried, f"{package}/requirements.txt": f"coloured=={version}\n"}
    return write_wheel(folder, files, package, entry=f"{package}:main")


def results(folder: Path) -> list[object]:
    lines = [line for path in sorted(folder.glob("part-*")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_two_jobs_with_conflicting_dependencies_over_rest(cluster: Cluster, tmp_path: Path) -> None:
    wheels, go = {}, tmp_path / "go"
    for version in ("1.0", "2.0"):
        status, response = cluster.upload(job_wheel(tmp_path, version))
        assert status == 200, response
        wheel_id = response["filename"].rsplit("/", 1)[-1]
        assert wheel_id in [f["id"] for f in cluster.get("/jars")["files"]]
        body = json.dumps({"programArgsList": [str(tmp_path / f"out-{version}"), str(go)]}).encode()
        status, response = cluster.request("POST", f"/jars/{wheel_id}/plan", body)  # creates the environment, too
        assert status == 200, response
        assert "Map" in response["plan"]["nodes"][0]["description"]
        wheels[version] = wheel_id
    jobs = {}
    for version, wheel_id in wheels.items():
        out = tmp_path / f"out-{version}"
        body = json.dumps({"programArgsList": [str(out), str(go)], "parallelism": 1}).encode()
        status, response = cluster.request("POST", f"/jars/{wheel_id}/run", body)
        assert status == 200, response
        jobs[version] = (response["jobid"], out)
    wait_until(lambda: all(cluster.state(job_id) == "RUNNING" for job_id, _ in jobs.values()), "both jobs to run")
    assert len({cluster.task_managers_of(job_id)[0] for job_id, _ in jobs.values()}) == 1
    go.touch()
    for version, (job_id, out) in jobs.items():
        cluster.wait_for(job_id, "FINISHED")
        assert results(out) == [version] * 10


def test_a_wheel_with_the_command_line(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    done = cluster.run("-p", "2", str(job_wheel(tmp_path, "1.0")), str(tmp_path / "out"), str(tmp_path / "go"))
    assert "Job has been submitted with JobID" in done.stdout
    assert results(tmp_path / "out") == ["1.0"] * 10


def test_a_failed_install_is_reported_with_pips_reason(cluster: Cluster, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"broken_job.py": JOB, "requirements.txt": "no-such-package-for-millstream==9.9\n"}
    wheel = write_wheel(tmp_path, files, "broken_job", entry="broken_job:main")
    done = cluster.run(str(wheel), str(tmp_path / "out"), check=False)
    assert done.returncode != 0
    assert "no-such-package-for-millstream" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_install_on_the_cluster_is_the_jobs_error(cluster: Cluster, tmp_path: Path) -> None:
    body = """
    env.set_python_requirements("requirements.txt")
    env.from_sequence(1, 3).map(lambda x: x).print()
    env.execute("needs")
    """
    script = write_job(tmp_path, "needs", body)
    (tmp_path / "requirements.txt").write_text("no-such-package-for-millstream==9.9\n")
    script.write_text(script.read_text().replace('"requirements.txt"', repr(str(tmp_path / "requirements.txt"))))
    done = cluster.run(str(script), check=False)
    assert done.returncode == 1
    assert "no-such-package-for-millstream" in done.stderr


def test_results_reach_the_client(cluster: Cluster, tmp_path: Path) -> None:
    body = """
    from dataclasses import dataclass

    @dataclass
    class Pair:
        key: int
        value: int

    env.set_parallelism(3)
    pairs = env.from_sequence(1, 30_000).map(lambda x: Pair(x % 7, x), output_type=Pair)
    sums = pairs.key_by("key").reduce(lambda a, b: Pair(a.key, a.value + b.value))
    best = {}
    for pair in sums.execute_and_collect():
        best[pair.key] = max(pair.value, best.get(pair.key, 0))
    print(sorted(best.items()))
    """
    script = write_job(tmp_path, "collect", body)
    expected = [(k, sum(x for x in range(1, 30_001) if x % 7 == k)) for k in range(7)]
    assert str(expected) in cluster.run(str(script)).stdout
