"""What can go wrong in a simulated cluster, each drawn by the run's random."""

from __future__ import annotations

from simulated_cluster import Daemon, SimulatedCluster
from virtual_network import LOST

from millstream.core.jobs.failure_kinds import FailureKind

LONGEST_FREEZE = 20.0
LONGEST_CUT = 50.0
FAULTS = {
    "cancel_a_job": 3,
    "fail_a_task": 3,
    "crash_a_child": 4,
    "break_a_session": 4,
    "slow_a_session_down": 4,
    "cut_two_off": 2,
    "cut_one_off": 2,
    "freeze_a_process": 2,
    "kill_a_task_manager": 1,
    "kill_a_job_manager": 1,
    "kill_the_dispatcher": 1,
    "kill_the_resource_manager": 1,
}
"""The methods of `Faults`, and how often each happens, compared with the others."""


class Faults:
    """Each method makes one thing go wrong, if there is anything that it can happen to."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.world = cluster.world
        self.happened: list[str] = []
        self._random = self.world.random
        self._cluster = cluster

    def happen(self) -> None:
        """Any of them."""
        (fault,) = self._random.choices(list(FAULTS), list(FAULTS.values()))
        self.happened.append(fault)
        self.world.tell(f"*** {fault}")
        getattr(self, fault)()

    def cancel_a_job(self) -> None:
        if self._cluster.jobs:
            job_id = self._random.choice(self._cluster.jobs)
            self.world.loop.create_task(self._cluster.cancel(job_id))

    def fail_a_task(self) -> None:
        running = [task for worker in self._cluster.children.workers() for task in worker.running]
        if running:
            exception = self._random.choice(("ValueError: bad", "KeyError: 7"))
            self._random.choice(running).fail(exception, FailureKind.ORDINARY)

    def crash_a_child(self) -> None:
        children = self._cluster.children.living()
        if children:
            child = self._random.choice(children)
            if self._random.random() < 0.5:
                child.crash()
            else:
                child.kill()

    def kill_a_task_manager(self) -> None:
        task_managers = [daemon for daemon in self._cluster.task_managers if daemon.is_alive]
        if task_managers:
            self._end(self._random.choice(task_managers))
            if self._random.random() < 0.7:
                self._cluster.start_task_manager()

    def kill_a_job_manager(self) -> None:
        """Its jobs are gone with it; their slots must not be."""
        self._end(self._random.choice(self._cluster.job_managers))

    def kill_the_resource_manager(self) -> None:
        self._end(self._cluster.resource_manager)

    def kill_the_dispatcher(self) -> None:
        self._end(self._cluster.dispatcher)

    def break_a_session(self) -> None:
        """Rather one on which something is in flight."""
        calls = self.world.network.open_calls()
        busy = [call for call in calls if call.to_server.is_busy or call.to_client.is_busy]
        if calls:
            call = self._random.choice(busy if busy and self._random.random() < 0.7 else calls)
            self.world.tell(f"breaks: {call.client.process.name} at {call.server.process.name}")
            call.break_off(LOST)

    def slow_a_session_down(self) -> None:
        calls = self.world.network.open_calls()
        if calls:
            call = self._random.choice(calls)
            self._random.choice((call.to_client, call.to_server)).slow_down()

    def cut_two_off(self) -> None:
        """From each other; others still reach both."""
        one, other = self._random.sample(self._cluster.daemons(), 2)
        self._cut_off(one, [other])

    def cut_one_off(self) -> None:
        """From all others."""
        daemons = self._cluster.daemons()
        self._cut_off(self._random.choice(daemons), daemons)

    def _cut_off(self, one: Daemon, others: list[Daemon]) -> None:
        """What goes from one to the other waits; often connections break with it, or are taken for broken."""
        seconds, network = self._random.uniform(0, LONGEST_CUT), self.world.network
        self.world.tell(f"cut off for {seconds:.1f} s: {one.process.name} from {[d.process.name for d in others]}")
        breaks = self._random.random() < 0.5
        for other in others:
            network.cut_off(one.process, other.process, seconds)
            for call in network.open_calls() if breaks else ():
                if {call.client.process, call.server.process} == {one.process, other.process}:
                    call.break_off(LOST, by_itself=True)

    def freeze_a_process(self) -> None:
        process = self._random.choice(self._cluster.daemons()).process
        seconds = self._random.uniform(0, LONGEST_FREEZE)
        self.world.tell(f"freezes for {seconds:.1f} s: {process.name}")
        self.world.loop.freeze(process)
        self.world.loop.call_later(seconds, self.world.loop.thaw, process)

    def _end(self, daemon: Daemon) -> None:
        """By force, or in order."""
        if daemon.is_alive:
            how = self._random.random()
            self.world.tell(f"{'killed' if how < 0.7 else 'asked to stop'}: {daemon.process.name}")
            if how < 0.7:
                self._cluster.kill(daemon)
            else:
                daemon.stop()
