"""What can go wrong in a simulated cluster, each drawn by the run's random."""

from __future__ import annotations

from simulated_client import SimulatedClient
from simulated_cluster import Daemon, SimulatedCluster
from simulated_store import SimulatedSession
from virtual_loop import VirtualProcess
from virtual_network import LOST

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.messages.rescaling import RescaleRequest

LONGEST_FREEZE = 20.0
LONGEST_CUT = 50.0
FAULTS = {
    "cancel_a_job": 3,
    "fail_a_task": 7,
    "rescale_a_job": 4,
    "crash_a_child": 4,
    "break_a_session": 4,
    "slow_a_session_down": 4,
    "cut_two_off": 2,
    "cut_one_off": 2,
    "cut_one_way": 2,
    "freeze_a_process": 2,
    "kill_a_task_manager": 1,
    "kill_a_job_manager": 1,
    "kill_a_dispatcher": 1,
    "kill_a_resource_manager": 1,
}
"""The methods of `Faults`, and how often each happens, compared with the others."""
STORE_FAULTS = {"suspend_a_session": 2, "lose_a_session": 2, "break_a_write_off": 2}
"""Those of a store that several candidates share."""


class Faults:
    """Each method makes one thing go wrong, if there is anything that it can happen to."""

    def __init__(self, cluster: SimulatedCluster, client: SimulatedClient) -> None:
        self.world = cluster.world
        self.happened: list[str] = []
        self._random = self.world.random
        self._cluster = cluster
        self._client = client
        self._faults = FAULTS | (STORE_FAULTS if cluster.shape.recovers else {})

    def happen(self) -> None:
        """Any of them."""
        (fault,) = self._random.choices(list(self._faults), list(self._faults.values()))
        self.happened.append(fault)
        self.world.tell_fault(fault)
        getattr(self, fault)()

    def _seconds(self, most: float) -> float:
        return self.world.up_to(most)

    # Jobs and their processes

    def cancel_a_job(self) -> None:
        if self._client.accepted:
            job_id = self._random.choice(self._client.accepted)
            self.world.loop.create_task(self._client.cancel(job_id), context=self._client.process.context)

    def fail_a_task(self) -> None:
        running = [task for worker in self._cluster.children.workers() for task in worker.running]
        if running:
            exception = self._random.choice(("ValueError: bad", "KeyError: 7"))
            self._random.choice(running).fail(exception, FailureKind.ORDINARY)

    def rescale_a_job(self) -> None:
        """As far as there are slots, and nothing is in the way of it."""
        jobs = [(d, job) for d in self._cluster.job_managers if d.is_alive for job in d.service.jobs.values()]
        if jobs:
            daemon, job = self._random.choice(jobs)
            trigger_id, parallelism = f"rescale {len(self.happened)}", self._random.randint(1, 3)
            request = RescaleRequest(job.master.graph.job_id, trigger_id, parallelism)
            self.world.later(daemon.process, 0.0, job.rescale, request)

    def crash_a_child(self) -> None:
        children = self._cluster.children.living()
        if children:
            child = self._random.choice(children)
            if self._random.random() < 0.5:
                child.crash()
            else:
                child.kill()

    # Services

    def kill_a_task_manager(self) -> None:
        self._end(self._cluster.task_managers)
        if self._random.random() < 0.7:
            self._cluster.start_task_manager()

    def kill_a_job_manager(self) -> None:
        """Its jobs are gone with it; their slots must not be."""
        self._end(self._cluster.job_managers)

    def kill_a_resource_manager(self) -> None:
        self._end(self._cluster.resource_managers)

    def kill_a_dispatcher(self) -> None:
        self._end(self._cluster.dispatchers)

    def _end(self, daemons: list[Daemon]) -> None:
        """By force, or in order."""
        living = [daemon for daemon in daemons if daemon.is_alive]
        if living:
            daemon, how = self._random.choice(living), self._random.random()
            self.world.tell_fault(f"{'killed' if how < 0.7 else 'stopped'}: {daemon.name}")
            if how < 0.7:
                self._cluster.kill(daemon)
            else:
                daemon.stop()

    def freeze_a_process(self) -> None:
        """Time passes for all other processes, and for its session with the store."""
        process = self._random.choice(self._cluster.daemons()).process
        seconds = self._seconds(LONGEST_FREEZE)
        self.world.tell_fault(f"freezes for {seconds:.1f} s: {process.name}")
        self.world.loop.freeze(process)
        self.world.loop.call_later(seconds, self.world.loop.thaw, process)
        if self._cluster.shape.recovers:
            self._cluster.store.stood_still(process, seconds)

    # The network

    def break_a_session(self) -> None:
        """Rather one on which something is in flight."""
        calls = self.world.network.open_calls()
        busy = [call for call in calls if call.to_server.is_busy or call.to_client.is_busy]
        if calls:
            call = self._random.choice(busy if busy and self._random.random() < 0.7 else calls)
            self.world.tell_fault(f"breaks: {call.client.process.name} at {call.server.process.name}")
            call.break_off(LOST)

    def slow_a_session_down(self) -> None:
        calls = self.world.network.open_calls()
        if calls:
            call = self._random.choice(calls)
            self._random.choice((call.to_client, call.to_server)).slow_down()

    def cut_two_off(self) -> None:
        """From each other; others still reach both."""
        one, other = self._random.sample(self._hosts(), 2)
        self._cut_off([(one, other), (other, one)])

    def cut_one_off(self) -> None:
        """From all others."""
        hosts = self._hosts()
        one = self._random.choice(hosts)
        self._cut_off([pair for other in hosts if other is not one for pair in ((one, other), (other, one))])

    def cut_one_way(self) -> None:
        """Messages of one do not reach the other; those of the other still arrive."""
        one, other = self._random.sample(self._hosts(), 2)
        self._cut_off([(one, other)])

    def _hosts(self) -> list[VirtualProcess]:
        return [self._client.process, *(daemon.process for daemon in self._cluster.daemons())]

    def _cut_off(self, ways: list[tuple[VirtualProcess, VirtualProcess]]) -> None:
        """What goes this way waits; often connections break with it, or are taken for broken."""
        seconds, network = self._seconds(LONGEST_CUT), self.world.network
        cut = ", ".join(f"{source.name} to {target.name}" for source, target in ways)
        self.world.tell_fault(f"cut off for {seconds:.1f} s: {cut}")
        breaks = self._random.random() < 0.5
        for source, target in ways:
            network.cut_off(source, target, seconds)
            for call in network.open_calls() if breaks else ():
                if {call.client.process, call.server.process} == {source, target}:
                    call.break_off(LOST, by_itself=True)

    # The store

    def suspend_a_session(self) -> None:
        """Its session continues afterwards."""
        session = self._session()
        self.world.tell_fault(f"the store does not respond to {session.process.name}")
        session.suspend()

    def lose_a_session(self) -> None:
        """At once, or after it was suspended; a new one begins later."""
        session, store = self._session(), self._cluster.store
        self.world.tell_fault(f"{session.process.name} loses its session with the store")
        store.lose(session, self._random.choice((0.0, store.session_timeout)))

    def break_a_write_off(self) -> None:
        """The next one: whether it has taken effect is not known."""
        session = self._session()
        self.world.tell_fault(f"the next write of {session.process.name} breaks off")
        session.suspend_within_write(takes_effect=self._random.random() < 0.5)
        session.is_lost_then = self._random.random() < 0.5

    def _session(self) -> SimulatedSession:
        return self._random.choice(list(self._cluster.store.sessions.values()))
