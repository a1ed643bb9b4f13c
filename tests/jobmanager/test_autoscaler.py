"""What the autoscaler makes of measurements: never without a full window, never beyond its limits, with its reasons."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_graphs import edge, job, vertex
from msgspec.structs import replace

from millstream.core.errors import ConfigurationError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.autoscaler.autoscaler import Autoscaler, Decision
from millstream.jobmanager.autoscaler.measured import Reading, Totals
from millstream.jobmanager.autoscaler.settings import AutoscalerSettings, autoscaler_settings

SETTINGS = AutoscalerSettings(window_ms=10_000, stabilization_ms=5_000, scale_down_interval_ms=0)
Shares = Mapping[str, tuple[float, float]]
"""Of each vertex: the parts of its time that it was busy and backpressured."""


def pipeline(*parallelisms: int) -> JobGraph:
    vertices = [vertex(f"v{i}", p) for i, p in enumerate(parallelisms)]
    return job(vertices, [edge(f"v{i}", f"v{i + 1}", "HASH") for i in range(len(parallelisms) - 1)])


class Measured:
    """A job under an autoscaler, as time goes by; `passes` is the part of the records that each vertex emits."""

    def __init__(
        self, graph: JobGraph, settings: AutoscalerSettings = SETTINGS, tasks: int | None = None, passes: float = 1.0
    ) -> None:
        self.graph = graph
        self.passes = passes
        self.tasks = tasks
        self.scaler = Autoscaler(settings)
        self.now = 0
        self.attempt = 0
        self.totals = {v.id: Totals() for v in graph.vertices}

    def observe(self) -> Decision | None:
        attempts = frozenset({AttemptId(f"attempt {self.attempt}")})
        return self.scaler.observe(self.graph, Reading(self.now, attempts, dict(self.totals)))

    def work(self, ms: int, shares: Shares, backlog: float = 0.0, records: int = 1_000) -> Decision | None:
        """So long, every vertex at its shares; returns what is decided then."""
        self.now += ms
        for v in self.graph.vertices:
            busy, held = shares[v.id]
            whole, before = ms * v.parallelism, self.totals[v.id]
            busy_ms, held_ms = round(whole * busy), round(whole * held)
            self.totals[v.id] = Totals(
                before.records_in + records,
                before.records_out + round(records * self.passes),
                before.busy_ms + busy_ms,
                before.backpressured_ms + held_ms,
                before.other_ms + whole - busy_ms - held_ms,
                backlog if v is self.graph.vertices[0] else 0.0,
                v.parallelism if self.tasks is None else self.tasks,
            )
        return self.observe()

    def window(self, shares: Shares, backlog: float = 0.0) -> Decision | None:
        """From the start to the end of the first window."""
        self.observe()
        assert self.work(5_000, shares, backlog) is None
        return self.work(10_000, shares, backlog)


def test_nothing_is_decided_before_the_window_is_full() -> None:
    measured = Measured(pipeline(1, 1))
    assert measured.observe() is None
    busy = {"v0": (0.3, 0.7), "v1": (1.0, 0.0)}
    assert measured.work(4_999, busy) is None
    assert measured.work(1, busy) is None
    assert measured.work(9_999, busy) is None
    decision = measured.work(1, busy)
    assert decision is not None
    assert measured.work(9_999, busy) is None, "one decision a window"


def test_the_vertex_that_holds_its_source_back_gets_more_tasks_and_the_reason_names_it() -> None:
    decision = Measured(pipeline(1, 1)).window({"v0": (0.3, 0.7), "v1": (1.0, 0.0)})
    assert decision is not None
    assert decision.parallelism == {"v1": 3}
    assert decision.reason == "'v1' 1 -> 3: busy 100%, 200% expected; the target is 70%"


def test_a_job_within_its_bounds_is_left_alone() -> None:
    assert Measured(pipeline(2, 2)).window({"v0": (0.6, 0.0), "v1": (0.8, 0.0)}) is None


def test_a_vertex_that_has_little_to_do_gets_fewer_tasks_but_not_all_at_once() -> None:
    decision = Measured(pipeline(10, 10)).window({"v0": (0.7, 0.0), "v1": (0.01, 0.0)})
    assert decision is not None
    assert decision.parallelism == {"v1": 4}


def test_nothing_is_scaled_down_before_its_interval_is_over() -> None:
    settings = replace(SETTINGS, scale_down_interval_ms=60_000)
    measured = Measured(pipeline(4, 4), settings)
    idle = {"v0": (0.1, 0.0), "v1": (0.1, 0.0)}
    assert measured.window(idle) is None
    decisions = [measured.work(10_000, idle) for _ in range(5)]
    assert decisions[:4] == [None] * 4
    assert decisions[4] is not None


def test_a_backlog_is_worked_off_in_its_time() -> None:
    settings = replace(SETTINGS, catch_up_ms=20_000)
    decision = Measured(pipeline(2, 2), settings).window({"v0": (0.7, 0.0), "v1": (0.7, 0.0)}, backlog=1_000)
    assert decision is not None
    assert decision.parallelism == {"v0": 3, "v1": 3}  # half as much again
    without = replace(settings, catch_up_ms=0)
    assert Measured(pipeline(2, 2), without).window({"v0": (0.7, 0.0), "v1": (0.7, 0.0)}, backlog=1_000) is None


def test_a_backlog_is_measured_by_what_the_source_reads_and_not_by_what_its_chain_lets_through() -> None:
    settings = replace(SETTINGS, catch_up_ms=20_000)
    measured = Measured(pipeline(2, 2), settings, passes=0.1)
    decision = measured.window({"v0": (0.7, 0.0), "v1": (0.7, 0.0)}, backlog=1_000)
    assert decision is not None
    assert decision.parallelism == {"v0": 3, "v1": 3}


def test_tasks_that_were_restarted_are_measured_from_their_start() -> None:
    measured = Measured(pipeline(1))
    busy = {"v0": (1.0, 0.0)}
    measured.observe()
    measured.work(5_000, busy)
    measured.attempt += 1
    assert measured.work(10_000, busy) is None
    assert measured.work(5_000, busy) is None
    assert measured.work(10_000, busy) is not None


def test_tasks_that_have_ended_are_no_reason_for_more_of_them() -> None:
    assert Measured(pipeline(2), tasks=1).window({"v0": (1.0, 0.0)}) is None
    assert Measured(pipeline(2), tasks=2).window({"v0": (1.0, 0.0)}) is not None


def test_what_the_program_or_the_user_fixed_stays() -> None:
    busy = {f"v{i}": (1.0, 0.0) for i in range(4)}
    a, b, c, d = pipeline(1, 1, 1, 1).vertices
    fixed = (replace(a, parallelism_fixed=True), replace(b, non_parallel=True), c, replace(d, max_parallelism=1))
    graph = job(fixed, [edge(f"v{i}", f"v{i + 1}", "HASH") for i in range(3)])
    decision = Measured(graph, replace(SETTINGS, excluded=frozenset({"v2"}))).window(busy)
    assert decision is not None
    assert decision.parallelism == {}
    assert "'v0', 'v1', 'v2': busier than it should be" in decision.reason


def test_vertices_with_a_forward_edge_between_them_get_the_same() -> None:
    graph = job([vertex("v0", 2), vertex("v1", 2)], [edge("v0", "v1", "FORWARD")])
    decision = Measured(graph).window({"v0": (0.1, 0.0), "v1": (1.0, 0.0)})
    assert decision is not None
    assert decision.parallelism == {"v0": 3, "v1": 3}


@given(data=st.data(), parallelisms=st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_decisions_stay_within_their_limits_and_go_the_right_way(data: st.DataObject, parallelisms: list[int]) -> None:
    settings = AutoscalerSettings(
        window_ms=10_000, stabilization_ms=5_000, scale_down_interval_ms=data.draw(st.sampled_from([0, 10**9])),
        scale_up_factor=data.draw(st.sampled_from([0.5, 3.0])),
        scale_down_factor=data.draw(st.sampled_from([0.0, 0.6])),
        least=data.draw(st.integers(1, 2)), most=data.draw(st.integers(5, 30)),
    )  # fmt: skip
    graph = pipeline(*parallelisms)
    shares: dict[str, tuple[float, float]] = {}
    for v in graph.vertices:
        busy = data.draw(st.floats(0, 1))
        shares[v.id] = (busy, data.draw(st.floats(0, 1)) * (1 - busy))
    decision = Measured(graph, settings).window(shares, data.draw(st.sampled_from([0.0, 10.0, 1e9])))
    if decision is None:
        return
    assert decision.reason
    for v in graph.vertices:
        wanted = decision.parallelism.get(v.id)
        if wanted is None:
            continue
        assert wanted != v.parallelism
        assert settings.least <= wanted <= min(settings.most, v.max_parallelism)
        if settings.scale_down_interval_ms:
            assert wanted > v.parallelism
        if wanted > max(v.parallelism, settings.least):
            assert wanted <= v.parallelism * (1 + settings.scale_up_factor)
        if wanted < min(v.parallelism, settings.most):
            assert wanted >= v.parallelism * (1 - settings.scale_down_factor)


def test_a_busy_vertex_that_cannot_be_scaled_has_the_same_reason_each_time() -> None:
    fixed = replace(vertex("work", 1), parallelism_fixed=True)
    measured = Measured(job([vertex("v0", 1), fixed], [edge("v0", "work", "REBALANCE")]))
    told = measured.window({"v0": (0.6, 0.0), "work": (1.0, 0.0)})
    assert told is not None
    assert (told.parallelism, "'work': busier than it should be" in told.reason) == ({}, True)
    assert measured.work(10_000, {"v0": (0.6, 0.0), "work": (0.95, 0.0)}) == told
    assert measured.work(10_000, {"v0": (0.6, 0.0), "work": (0.8, 0.0)}) is None


@given(times=st.lists(st.integers(1, 8_000), max_size=60), busy=st.floats(0, 1))
def test_there_is_never_more_than_one_decision_in_a_window(times: list[int], busy: float) -> None:
    measured, decided = Measured(pipeline(4)), list[int]()
    for ms in times:
        if measured.work(ms, {"v0": (busy, 0.0)}) is not None:
            decided.append(measured.now)
    assert all(later - earlier >= SETTINGS.window_ms for earlier, later in itertools.pairwise(decided))


def test_the_options_are_flinks() -> None:
    assert autoscaler_settings(Configuration()) is None
    enabled = Configuration({"job.autoscaler.enabled": True, "job.autoscaler.vertex.exclude.ids": "a; b"})
    assert autoscaler_settings(enabled) == AutoscalerSettings(excluded=frozenset({VertexId("a"), VertexId("b")}))
    with pytest.raises(ConfigurationError, match=r"0\.95 is not between"):
        autoscaler_settings(
            enabled.merged({"job.autoscaler.utilization.target": "0.95", "job.autoscaler.utilization.max": "0.9"})
        )
    high = autoscaler_settings(enabled.merged({"job.autoscaler.utilization.target": "0.95"}))
    assert high is not None
    assert (high.lowest, high.highest) == (0.75, 1.15), "bounds that nobody set move with the target"
    with pytest.raises(ConfigurationError, match=r"did you mean 'job\.autoscaler\.enabled'"):
        Configuration({"job.autoscaler.enable": True})
    assert Configuration({"job.date": "today"}).to_dict() == {"job.date": "today"}, "a key of the user's own"
