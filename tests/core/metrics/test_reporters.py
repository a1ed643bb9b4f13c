"""What every reporter does, whatever its target; and the behaviour of single reporters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from reporter_rigs import FileRig, Got, OtelRig, PrometheusRig, Rig, scrape
from waiting import run, wait_until

from millstream.core.errors import ConfigurationError
from millstream.core.metrics.model import HistogramReading, MeterReading, MetricGroup, Scope
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.metrics.reporting import reporters as reporters_module
from millstream.core.metrics.reporting.prometheus import PrometheusReporter, ports
from millstream.core.metrics.reporting.reporter import MetricReporter
from millstream.core.metrics.reporting.reporters import Reporters
from millstream.core.settings.configuration import Configuration

VARIABLES = {"job_name": 'count, "all"', "subtask_index": "0"}


def measured() -> list[MetricGroup]:
    return [
        MetricGroup(
            Scope.TASK, VARIABLES, counters={"numRecordsIn": 12345},
            gauges={"buffers.outPoolUsage": 0.25, "currentInputWatermark": -(1 << 63)},
            meters={"numRecordsInPerSecond": MeterReading(12345, 99.5)},
        ),
        MetricGroup(
            Scope.OPERATOR, {**VARIABLES, "shard": "7"}, ("shard", "7"), ("shard",), counters={"seen": -3},
            histograms={"size": HistogramReading(4, 1.0, 9.0, 5.0, 2.0, p50=4.5, p99=8.5)},
        ),
    ]  # fmt: skip


@pytest.fixture(params=[PrometheusRig, OtelRig, FileRig], ids=["prometheus", "otel", "file"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made: Rig = request.param(tmp_path)
    yield made
    made.close()


def reporting(rig: Rig, more: dict[str, Any] | None = None, registry: MetricRegistry | None = None) -> Reporters:
    settings = {**rig.options(), **(more or {})}
    options = Configuration({f"metrics.reporter.mine.{key}": value for key, value in settings.items()})
    return Reporters("taskmanager", options, registry or MetricRegistry(measured))


async def arrives(got: Callable[[], Awaitable[Got]], wanted: Callable[[Got], bool]) -> Got:
    """Within the deadline of the scenario."""
    while not wanted(found := await got()):  # noqa: ASYNC110  # it is polled: what it waits for is elsewhere
        await asyncio.sleep(0.005)
    return found


def reported(rig: Rig, more: dict[str, Any] | None = None) -> Got:
    """The metrics that arrive first."""
    found: list[Got] = []

    async def scenario() -> None:
        reporters = reporting(rig, more)
        await reporters.start()
        try:
            found.append(await arrives(lambda: rig.got(reporters), bool))
        finally:
            await reporters.stop()

    run(scenario)
    return found[0]


def test_every_kind_of_figure_arrives_with_its_name_and_labels(rig: Rig) -> None:
    got = reported(rig)
    labels, with_shard = frozenset(VARIABLES.items()), frozenset({**VARIABLES, "shard": "7"}.items())
    task, operator = "flink_taskmanager_job_task_", "flink_taskmanager_job_task_operator_shard_"
    assert got[f"{task}numRecordsIn", labels] == 12345
    assert got[f"{task}buffers_outPoolUsage", labels] == 0.25
    assert got[f"{task}currentInputWatermark", labels] == -(1 << 63)
    assert got[f"{task}numRecordsInPerSecond", labels] == 99.5
    assert got[f"{operator}seen", with_shard] == -3
    assert got[f"{operator}size_count", with_shard] == 4
    median = frozenset({**VARIABLES, "shard": "7", "quantile": "0.5"}.items())
    assert got[f"{operator}size", median] == 4.5


def test_only_what_passes_the_filters_arrives(rig: Rig) -> None:
    settings = {"filter.includes": "taskmanager.job.task:num*,buffers.*:counter,gauge", "filter.excludes": "*:buffers*"}
    assert {name for name, _ in reported(rig, settings)} == {"flink_taskmanager_job_task_numRecordsIn"}


def test_variables_are_left_out_and_added(rig: Rig) -> None:
    added = {"scope.variables.additional": "stage:test,zone:b"}
    settings = {"scope.variables.excludes": "job_name;<subtask_index>", **added}
    assert {labels for name, labels in reported(rig, settings) if name.endswith("numRecordsIn")} == {
        frozenset({("stage", "test"), ("zone", "b")})
    }


def test_metrics_added_later_arrive_as_well(rig: Rig) -> None:
    counted = [1]

    def growing() -> list[MetricGroup]:
        counted[0] += 1
        return [MetricGroup(Scope.JOB_MANAGER, gauges={"numRunningJobs": counted[0]})]

    async def scenario() -> None:
        reporters = reporting(rig, registry=MetricRegistry(growing))
        await reporters.start()
        await arrives(lambda: rig.got(reporters), lambda got: any(value > 5 for value in got.values()))
        await reporters.stop()

    run(scenario)


def test_a_collector_that_refuses_is_logged_once_and_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rig = OtelRig(tmp_path)
    rig.status = 503

    async def scenario() -> None:
        reporters = reporting(rig)
        await reporters.start()
        await asyncio.to_thread(wait_until, lambda: len(rig.requests) >= 3, "a third try")
        rig.status = 200
        await asyncio.to_thread(wait_until, lambda: "reporting again" in caplog.text, "a success")
        await reporters.stop()

    with caplog.at_level("INFO"):
        run(scenario)
    rig.close()
    assert caplog.text.count("returned 503 Service Unavailable") == 1
    (resource,) = rig.requests[0].resource_metrics
    assert resource.resource.attributes[0].value.string_value == "millstream"
    sums = {metric.name: metric.sum for metric in resource.scope_metrics[0].metrics if metric.HasField("sum")}
    assert sums["flink.taskmanager.job.task.numRecordsIn"].is_monotonic
    assert not sums["flink.taskmanager.job.task.operator.shard.seen"].is_monotonic, "a user's counter may go back"


def test_each_service_takes_a_free_port_of_the_range_or_goes_without(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        held = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        taken = held.sockets[0].getsockname()[1]
        options = {"factory.class": "prometheus", "port": f"{taken},0"}
        configured = Configuration({f"metrics.reporter.prom.{key}": value for key, value in options.items()})
        reporters = Reporters("jobmanager", configured, MetricRegistry(measured))
        await reporters.start()
        (reporter,) = reporters.made
        assert isinstance(reporter, PrometheusReporter)
        assert reporter.address not in ("", f"127.0.0.1:{taken}")
        text = await asyncio.to_thread(scrape, reporter.address)
        assert 'job_name="count___all_"' in text, "as Flink does, by default"
        assert "# HELP flink_taskmanager_job_task_numRecordsIn Records that were received." in text
        await reporters.stop()
        none_left = Configuration({**configured.to_dict(), "metrics.reporter.prom.port": str(taken)})
        reporters = Reporters("jobmanager", none_left, MetricRegistry(measured))
        await reporters.start()
        await reporters.stop()
        held.close()

    run(scenario)
    assert "there has to be one for each service of the host" in caplog.text


def test_a_full_file_is_rotated(tmp_path: Path) -> None:
    rig = FileRig(tmp_path)

    async def scenario() -> None:
        reporters = reporting(rig, {"max-size": "1024"})
        await reporters.start()
        former = (tmp_path / "metrics").glob
        await asyncio.to_thread(wait_until, lambda: list(former("taskmanager-*.metrics.1")), "a former file")
        await reporters.stop()

    run(scenario)


class Quiet(MetricReporter):
    """A plug-in for a test."""


def test_plug_ins_are_found_by_entry_point_or_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str, name: str) -> list[EntryPoint]:
        found = EntryPoint("quiet", f"{__name__}:Quiet", reporters_module.ENTRY_POINTS)
        return [found] if (group, name) == (found.group, found.name) else []

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    for kind in ("quiet", f"{__name__}:Quiet"):
        settings = {"metrics.reporter.q.factory.class": kind, "metrics.reporter.q.own.setting": "5"}
        (made,) = Reporters("dispatcher", Configuration(settings), MetricRegistry()).made
        assert type(made).__name__ == "Quiet"
        assert made.settings.text("own.setting") == "5"


def test_without_reporters_nothing_is_reported() -> None:
    assert Reporters("dispatcher", Configuration(), MetricRegistry()).made == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"metrics.reporters": "prom"}, "names 'prom', which has no class: set 'metrics.reporter.prom.factory.class'"),
        ({"metrics.reporter.a.factory.class": "graphite"}, "there is no reporter 'graphite'"),
        ({"metrics.reporter.a.factory.class": "nowhere.module:Class"}, "cannot be imported"),
        ({"metrics.reporter.a.factory.class": "pathlib:Path"}, "is not a class that derives from MetricReporter"),
        ({"metrics.reporter.a.factory.class": "file"}, "a file reporter needs a folder"),
        (
            {"metrics.reporter.a.factory.class": "prometheus", "metrics.reporter.a.port": "9250-9240"},
            "neither a port nor a range",
        ),
        (
            {"metrics.reporter.a.factory.class": "otel", "metrics.reporter.a.exporter.endpoint": "here"},
            "is no address such as http://host:4318/v1/metrics",
        ),
        (
            {"metrics.reporter.a.factory.class": "prometheus", "metrics.reporter.a.filter.includes": "*:*:timer"},
            "'timer' is not one of counter, gauge, meter, histogram",
        ),
        (
            {"metrics.reporter.a.factory.class": "prometheus", "metrics.reporter.a.scope.variables.additional": "x"},
            "'x' is not name:value",
        ),
    ],
)
def test_mistakes_are_reported_with_their_option(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why.replace("(", "\\(")):
        Reporters("dispatcher", Configuration(options), MetricRegistry())


def test_only_named_reporters_are_started() -> None:
    options = {f"metrics.reporter.{name}.factory.class": f"{__name__}:Quiet" for name in ("a", "b")}
    both = Reporters("dispatcher", Configuration(options), MetricRegistry()).made
    assert [reporter.settings.name for reporter in both] == ["a", "b"]
    (one,) = Reporters("dispatcher", Configuration({**options, "metrics.reporters": "b"}), MetricRegistry()).made
    assert one.settings.name == "b"


def test_ports_are_written_alone_and_as_ranges() -> None:
    assert ports("9249", "k") == [9249]
    assert ports("9249-9251,9300", "k") == [9249, 9250, 9251, 9300]


def test_options_of_reporters_are_validated_and_cannot_be_set_by_a_job() -> None:
    with pytest.raises(ConfigurationError, match=r"option 'metrics.reporter.prom.interval': .* is not a duration"):
        Configuration({"metrics.reporter.prom.interval": "soon"})
    with pytest.raises(ConfigurationError, match=r"unknown option 'metrics\.reporter\.prom'"):
        Configuration({"metrics.reporter.prom": "x"})
    job = Configuration().for_job({"metrics.reporter.prom.factory.class": "prometheus"})
    assert job.to_dict() == {}
