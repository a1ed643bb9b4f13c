"""No single point of failure: whatever of a cluster is killed, frozen or cut off, jobs continue, and end as reported.

Two dispatchers, resource managers and job managers, three task managers and a ZooKeeper ensemble of three, each on a
host of its own. From a seed, they and their networks fail at random, while users submit, stop and cancel jobs that
write to the exactly-once file sink. Then all of it is healed: every job continues within a bounded time, was run once,
and ends as reported to its user, with exactly the right output; all slots are free, and no process is left. The seed is
printed with a failure; set LEADERS_SEED to run it again, and LEADERS_MINUTES for how long.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from hosted_cluster import SLOTS, HostedCluster, hosted_cluster
from hosts import why_no_hosts
from leader_faults import Action, Havoc, plan
from users import RECOVERY, Users
from waiting import wait_until
from zookeeper_process import why_not

_REASON = why_no_hosts() or why_not()
pytestmark = [
    pytest.mark.process, pytest.mark.alone, pytest.mark.slow,
    pytest.mark.skipif(_REASON is not None, reason=str(_REASON)),
]  # fmt: skip


class Fire:
    """One run: faults in this thread, users in another."""

    def __init__(self, cluster: HostedCluster, folder: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._begun = time.monotonic()
        self._users = Users(cluster, folder, self._log)
        self._main = self._users.submit(lanes=3)  # more than the slots of a task manager
        self._users.seconds_until_progress(self._main)
        self._havoc = Havoc(cluster, random.Random(seed), self._main.id, self._log)

    def _log(self, line: str) -> None:
        print(f"{time.monotonic() - self._begun:7.1f} s: {line}", flush=True)

    def rage(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(1) as pool:
            pending: list[Future[None]] = []
            for step in plan(self._chance):
                if time.monotonic() > until:
                    break
                if step.action is not None and all(done.done() for done in pending):
                    pending.append(pool.submit(self._act, step.action))
                self._havoc.strike(step.faults)
                if step.recovers:
                    self._log(f"continues after {self._users.seconds_until_progress(self._main):.1f} s")
            for done in pending:
                done.result(4 * RECOVERY)

    def _act(self, action: Action) -> None:
        others = [job for job in self._users.jobs[1:] if job.id and not job.ends]
        match action:
            case Action.SAVEPOINT:
                self._users.take_savepoint(self._main)
            case Action.CANCEL if others:
                self._users.cancel(others[0])
            case Action.STOP if others:
                self._users.stop(others[0])
            case _:
                if len(others) < 2:
                    self._users.submit()

    def ends_well(self, hint: str) -> None:
        self._users.check_outcomes(hint)


MINUTES = float(os.environ.get("LEADERS_MINUTES", 60))


@pytest.mark.timeout(3600 + 60 * MINUTES)
@pytest.mark.parametrize("minutes", [0.7, pytest.param(MINUTES, marks=pytest.mark.long)])
def test_whatever_fails_every_job_ends_as_reported(tmp_path: Path, minutes: float) -> None:
    seed = int(os.environ.get("LEADERS_SEED", random.randrange(1 << 30)))
    hint = f"LEADERS_SEED={seed}"
    print(hint)
    with hosted_cluster(tmp_path / "hosted") as cluster:
        fire = Fire(cluster, tmp_path, seed)
        fire.rage(60 * minutes)
        fire.ends_well(hint)
        wait_until(lambda: cluster.free_slots() == SLOTS, f"all slots to be free, {hint}", RECOVERY)
        wait_until(lambda: not cluster.workers(), f"all workers to be gone, {hint}", RECOVERY)
