"""Which regions are deployed when, and again after failures, whatever the graph."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from mixed_topologies import components, mixed_topologies, neighbours

from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.failover.deployment_plan import DeploymentPlan
from millstream.jobmanager.failover.regions import PipelinedRegions, RegionCycleError
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask

A, B = VertexId("a"), VertexId("b")


def test_a_consumer_is_deployed_when_all_of_its_producers_have_finished() -> None:
    regions = PipelinedRegions(JobTopology({A: 2, B: 1}, [Edge(A, B, "HASH", Exchange.BLOCKING)]))
    first, second, consumer = Subtask(A, 0), Subtask(A, 1), Subtask(B, 0)
    everything = frozenset({first, second, consumer})
    nothing = frozenset[Subtask]()
    assert DeploymentPlan.of(regions, everything, nothing) == DeploymentPlan(frozenset({first, second}), {consumer})
    waiting = frozenset({consumer})
    assert DeploymentPlan.of(regions, waiting, {first}) == DeploymentPlan(nothing, waiting)
    assert DeploymentPlan.of(regions, waiting, {first, second}) == DeploymentPlan(waiting)
    again = frozenset({second, consumer})
    assert DeploymentPlan.of(regions, again, {first, second}) == DeploymentPlan(frozenset({second}), waiting), (
        "the result of an earlier attempt does not count"
    )


def test_each_consumer_of_a_pointwise_edge_waits_for_its_own_producers() -> None:
    regions = PipelinedRegions(JobTopology({A: 2, B: 2}, [Edge(A, B, "FORWARD", Exchange.BLOCKING)]))
    waiting = frozenset({Subtask(B, 0), Subtask(B, 1)})
    plan = DeploymentPlan.of(regions, waiting, {Subtask(A, 1)})
    assert plan == DeploymentPlan(frozenset({Subtask(B, 1)}), frozenset({Subtask(B, 0)}))


@given(topology=mixed_topologies(exchanges=[Exchange.PIPELINED]))
def test_pipelined_edges_alone_make_one_deployment(topology: JobTopology) -> None:
    everything = frozenset(topology.subtasks())
    assert DeploymentPlan.of(PipelinedRegions(topology), everything, frozenset()) == DeploymentPlan(everything)


class Deployment:
    """Deploys subtasks by plans and lets them finish; checks every deployment against the channels."""

    def __init__(self, topology: JobTopology) -> None:
        self.regions = PipelinedRegions(topology)
        self.components = components(topology)
        self.consumers = neighbours(topology, Exchange.BLOCKING)
        self.waiting = frozenset(topology.subtasks())
        self.running = set[Subtask]()
        self.finished = set[Subtask]()

    def deploy(self) -> None:
        plan = DeploymentPlan.of(self.regions, self.waiting, self.finished)
        assert plan.due | plan.waiting == self.waiting
        assert not plan.due & plan.waiting
        for subtask in plan.due:
            assert self.components[subtask] <= plan.due, "regions are deployed as a whole"
        for producer, consumers in self.consumers.items():
            assert producer in self.finished or not consumers & plan.due, "a result is complete before it is read"
        for subtask in plan.waiting:
            unfinished = {p for p, consumers in self.consumers.items() if consumers & self.components[subtask]}
            assert unfinished - self.finished, "nothing waits without a reason"
        self.waiting = plan.waiting
        self.running |= plan.due

    def finish(self, subtask: Subtask) -> None:
        self.running.remove(subtask)
        self.finished.add(subtask)
        self.deploy()

    def fail(self, failed: set[Subtask], lost: set[Subtask]) -> None:
        again = self.regions.affected(self.waiting | failed, lost)
        assert again == self.to_restart(self.waiting | failed, lost)
        self.finished -= again | lost
        self.running -= again
        self.waiting = again
        self.deploy()

    def to_restart(self, failed: frozenset[Subtask], lost: set[Subtask]) -> set[Subtask]:
        """The least set that holds the failed ones, whole regions, consumers, and producers of lost results."""
        again = set(failed)
        while True:
            more = {s for subtask in again for s in self.components[subtask]}
            more |= {consumer for subtask in again for consumer in self.consumers[subtask]}
            more |= {p for p, consumers in self.consumers.items() if p in lost and consumers & again}
            if more <= again:
                return again
            again |= more


@given(topology=mixed_topologies(), data=st.data())
def test_every_subtask_is_deployed_in_order_also_after_failures(topology: JobTopology, data: st.DataObject) -> None:
    try:
        deployment = Deployment(topology)
    except RegionCycleError:
        assume(False)
    deployment.deploy()
    failures = data.draw(st.integers(0, 2))
    while deployment.running:
        running = st.sampled_from(sorted(deployment.running))
        if failures and data.draw(st.booleans()):
            failures -= 1
            finished = sorted(deployment.finished)
            lost = data.draw(st.sets(st.sampled_from(finished))) if finished else set()
            deployment.fail({data.draw(running)}, lost)
        else:
            deployment.finish(data.draw(running))
    assert not deployment.waiting, "something always runs, until everything has finished"
