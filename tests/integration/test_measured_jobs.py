"""The metrics of a job match its actual records: over REST, and in Prometheus itself, which scrapes them."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from debian_packages import program_of
from ports import free_port, free_ports
from system import Cluster, given, running_cluster, wait_until, write_job
from tailed_source import TAILED_SOURCE

pytestmark = pytest.mark.process

HERE = Path(__file__).resolve().parent
DEPLOY = HERE.parents[1] / "deploy" / "prometheus"
NUMBERS, KEYS = 3_000, 7

JOB = """
from millstream.datastream.functions import MapFunction


class Measured(MapFunction):
    def open(self, context):
        group = context.get_metrics_group().add_group("shard", "7")
        self.seen, self.sizes = group.counter("seen"), group.distribution("sizes")

    def map(self, number):
        self.seen.inc()
        self.sizes.update(number)
        return number


tailed = env.from_source(TailedSource("{folder}", "quiet"), WatermarkStrategy.no_watermarks(), "quiet")
quiet = tailed.map(lambda t: t[1])
env.from_sequence(1, {numbers}).map(Measured()).name("measured").filter(lambda n: n % 2 == 0).name("even") \\
    .union(quiet).key_by(lambda n: n % {keys}).reduce(lambda a, b: a + b).name("added") \\
    .filter(lambda n: False).name("none").print()
env.execute("measured")
"""

FUSED = """
tailed = env.from_source(TailedSource("{folder}", "fused"), WatermarkStrategy.no_watermarks(), "tailed")
tailed.filter(lambda t: t[1] % 4 == 0).print()
env.execute("fused")
"""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, list[str]]]:
    """A cluster with an endpoint for Prometheus in each of its four services."""
    ports = [str(port) for port in free_ports().values()]
    options = {"metrics.reporter.prom.factory.class": "prometheus", "metrics.reporter.prom.port": ",".join(ports)}
    with running_cluster(tmp_path_factory.mktemp("cluster"), 1, 2, **options) as cluster:
        yield cluster, ports


@pytest.fixture(scope="module")
def measured(scraped: tuple[Cluster, list[str]], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that has processed all its records, and does not end."""
    cluster, _ = scraped
    folder = tmp_path_factory.mktemp("job")
    (folder / "quiet").touch()
    body = TAILED_SOURCE + JOB.format(folder=folder, numbers=NUMBERS, keys=KEYS)
    options = given("metrics.latency.interval=100 ms")
    job = cluster.submit_running(write_job(folder, "measured", body), *options, parallelism=2)
    wait_until(lambda: total(cluster, job, "added", "added.numRecordsIn") == NUMBERS // 2, "all numbers to be added")
    return job


def vertex(cluster: Cluster, job: str, operator: str) -> str:
    (found,) = [v["id"] for v in cluster.get(f"/jobs/{job}")["vertices"] if operator in v["name"]]
    return str(found)


def total(cluster: Cluster, job: str, operator: str, metric: str) -> float | None:
    """The sum over all subtasks of the operator's vertex."""
    path = f"/jobs/{job}/vertices/{vertex(cluster, job, operator)}/subtasks/metrics?agg=sum&get={metric}"
    found = cluster.get(path)
    return float(found[0]["sum"]) if found else None


def test_every_count_matches_the_job(scraped: tuple[Cluster, list[str]], measured: str) -> None:
    cluster, half = scraped[0], NUMBERS // 2
    for operator, metric, count in (
        ("measured", "numRecordsOut", half),
        ("measured", "measured.shard.7.seen", NUMBERS),
        ("added", "numRecordsIn", half),
        ("added", "numRecordsOut", 0),
        ("added", "added.numRecordsIn", half),
        ("added", "added.numRecordsOut", half),
        ("added", "none.numRecordsIn", half),
        ("added", "none.numRecordsOut", 0),
    ):
        wait_until(lambda o=operator, m=metric, c=count: total(cluster, measured, o, m) == c, f"{metric} of {operator}")
    added, quiet = vertex(cluster, measured, "added"), vertex(cluster, measured, "quiet")
    (edge,) = [e for e in cluster.get(f"/jobs/{measured}/flow")["edges"] if e["source"] == quiet]
    assert (edge["target"], edge["rate"], edge["queued-in"], edge["queued-out"]) == (added, 0, 0, 0)
    assert edge["credit"] > 0
    assert total(cluster, measured, "quiet", f"edge.{added}-{edge['input']}.numRecordsOut") == 0, "not the other edge's"
    path = f"/jobs/{measured}/vertices/{added}"
    single = cluster.get(f"{path}/metrics?get=0.numRecordsIn,1.numRecordsIn")
    assert sum(int(metric["value"]) for metric in single) == half
    one = cluster.get(f"{path}/subtasks/1/metrics?get=numRecordsIn")
    assert one == [{"id": "numRecordsIn", "value": single[1]["value"]}]
    for ids in ("/jobs/metrics", f"/jobs/{measured}/metrics"):
        assert {"uptime", "numRestarts", "numberOfCompletedCheckpoints"} <= {m["id"] for m in cluster.get(ids)}
    hot = cluster.get(f"{path}/hot-keys")
    assert 0 < hot["sampled"] <= half
    assert {entry["key"] for entry in hot["hot-keys"]} <= {str(key) for key in range(KEYS)}
    assert sum(entry["share"] for entry in hot["hot-keys"]) == pytest.approx(1.0), "there are few keys: all are known"

    assert cluster.get(f"{path}/jm-operator-metrics") == [], "it has no source"
    source = f"/jobs/{measured}/vertices/{vertex(cluster, measured, 'measured')}/jm-operator-metrics"

    def coordinator() -> dict[str, str]:
        ids = ",".join(metric["id"] for metric in cluster.get(source))
        return {m["id"].partition(".")[2]: m["value"] for m in cluster.get(f"{source}?get={ids}")}

    wait_until(lambda: coordinator().get("coordinator.enumerator.unassignedSplits") == "0", "all splits to be given")
    assert int(coordinator()["coordinator.numSplitsAssigned"]) > 0

    def latencies() -> list[str]:
        return [m["id"] for m in cluster.get(f"/jobs/{measured}/metrics") if m["id"].startswith("latency.source_id.")]

    wait_until(lambda: len([name for name in latencies() if name.endswith("latency_median")]) >= 4, "latencies")
    (running,) = cluster.get("/jobmanager/metrics?get=numRunningJobs")
    assert running["value"] == "1"
    (memory,) = cluster.get("/taskmanagers/metrics?get=Status.JVM.Memory.Heap.Used&agg=sum")
    assert memory["sum"] > 50e6, "of the task manager and of two slot workers"


def test_prometheus_scrapes_and_parses_every_process_and_evaluates_the_rules(
    scraped: tuple[Cluster, list[str]], measured: str, tmp_path: Path
) -> None:
    prometheus, promtool = program_of("prometheus", "prometheus"), program_of("prometheus", "promtool")
    for name in ("alerts.yml", "prometheus.yml"):
        shutil.copy(DEPLOY / name, tmp_path)
    shutil.copy(HERE / "alerts_test.yml", tmp_path)
    for command in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([promtool, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    sample = yaml.safe_load((tmp_path / "prometheus.yml").read_text())
    sample["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    sample["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{port}" for port in scraped[1]]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(sample))
    address = f"127.0.0.1:{free_port()}"
    command = [
        prometheus, "--config.file=prometheus.yml", f"--web.listen-address={address}",
        "--storage.tsdb.path=data",
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: values(address, 'up{job="millstream"}') == [1.0] * 4, "four services to be scraped")
        query = f'sum(flink_taskmanager_job_task_operator_shard_seen{{shard="7",job_id="{measured}"}})'
        wait_until(lambda: values(address, 'sum(flink_taskmanager_job_task_numRecordsIn{task_name=~"added.*"})')
                   == [NUMBERS / 2], "what the job counted to be in Prometheus")  # fmt: skip
        assert values(address, query) in ([NUMBERS], [])  # its subtasks may have ended
        assert values(address, "sum(flink_jobmanager_numRunningJobs)") == [1.0]
        rules = query_prometheus(address, "/api/v1/rules")["groups"]
        states = {rule["health"] for group in rules for rule in group["rules"]}
        assert states <= {"ok", "unknown"}, (tmp_path / "log").read_text()
    finally:
        server.terminate()
        server.wait(60)


def query_prometheus(address: str, path: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}{path}", timeout=30) as response:
        return json.load(response)["data"]


def values(address: str, query: str) -> list[float]:
    """None while it does not listen yet."""
    try:
        found = query_prometheus(address, f"/api/v1/query?query={urllib.parse.quote(query)}")["result"]
    except OSError:
        return []
    return [float(sample["value"][1]) for sample in found]


def test_counts_are_available_after_the_end(scraped: tuple[Cluster, list[str]], measured: str) -> None:
    cluster = scraped[0]
    cluster.cancel(measured)
    cluster.wait_for(measured, "CANCELED")
    assert total(cluster, measured, "added", "numRecordsIn") == NUMBERS // 2
    assert total(cluster, measured, "measured", "measured.shard.7.seen") == NUMBERS


def test_a_job_of_one_chain_shows_what_its_source_emits_and_its_sink_writes(
    scraped: tuple[Cluster, list[str]], tmp_path: Path
) -> None:
    cluster, read, wrote = scraped[0], 200, 50
    lines = tmp_path / "fused"
    lines.write_text("".join(f"{number}\n" for number in range(read)))
    job = cluster.submit_running(write_job(tmp_path, "fused", TAILED_SOURCE + FUSED.format(folder=tmp_path)))

    def shown() -> tuple[int, int]:
        (one,) = cluster.get(f"/jobs/{job}")["vertices"]
        return one["metrics"]["read-records"], one["metrics"]["write-records"]

    (only,) = [one["id"] for one in cluster.get(f"/jobs/{job}")["vertices"]]
    path, counters = f"/jobs/{job}/vertices/{only}", ("numRecordsIn", "numRecordsOut")

    def measured_and_top() -> tuple[list[str], tuple[int, ...]]:
        figures = json.loads(cluster.cli("top", "-m", cluster.rest, "--json", job).stdout)["jobs"][0]["vertices"][0]
        sent = [m["id"] for m in cluster.get(f"{path}/metrics") if m["id"].endswith(".numRecordsSend")]
        values = cluster.get(f"{path}/metrics?get=0.numRecordsIn,0.numRecordsOut,{','.join(sent)}")
        return [m["value"] for m in values], tuple((figures[name] or 0) > 0 for name in ("records_in", "records_out"))

    wait_until(lambda: shown() == (read, wrote), "all records to be shown")
    with lines.open("a") as file:
        file.write("".join(f"{number}\n" for number in range(read)))
    wait_until(lambda: measured_and_top()[1] == (True, True), "rates of the chain in top")
    wait_until(lambda: shown() == (2 * read, 2 * wrote), "all records to be shown")
    counted = [str(2 * read), str(2 * wrote), str(2 * wrote)]
    wait_until(lambda: measured_and_top()[0] == counted, "the counters of the task and of its sink")
    cluster.cancel(job)
    cluster.wait_for(job, "CANCELED")
    assert shown() == (2 * read, 2 * wrote)
    (subtask,) = cluster.get(path)["subtasks"]
    assert (subtask["metrics"]["read-records"], subtask["metrics"]["write-records"]) == (2 * read, 2 * wrote)
    assert [total(cluster, job, "tailed", name) for name in counters] == [2 * read, 2 * wrote]
